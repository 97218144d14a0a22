"""UserError: the one exception that a command or a tab shows as a sentence, without a traceback."""

LONGEST = 800  # characters of a sentence; what foreign files bring into one may have no end


class UserError(Exception):
    """Something the user can mend: says what, where, the two numbers, and what to do.

    Commands print ``str(error)`` on standard error and exit with 1; tabs show it as a notice. It is one line that can be
    shown anywhere, whatever a name or a value from a file holds: what is not printable is escaped.
    """

    def __str__(self) -> str:
        """The sentence."""
        text = " ".join(super().__str__().split())
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
        return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"
