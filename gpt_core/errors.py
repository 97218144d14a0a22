"""UserError: the one exception that a command or a tab shows as a sentence, without a traceback."""


class UserError(Exception):
    """Something the user can mend: says what, where, the two numbers, and what to do.

    Commands print ``str(error)`` on standard error and exit with 1; tabs show it as a notice.
    """
