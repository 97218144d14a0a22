"""UserError: one printable line, whatever a foreign name or value brings into it."""

from __future__ import annotations

import pytest

from gpt_core.errors import LONGEST, UserError


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("take 3 of 2; give 1 or 2", "take 3 of 2; give 1 or 2"),
        ("a\nb\r\n\tc", "a b c"),
        ("the key \ud800 is strange", "the key \\ud800 is strange"),
        ("zero \x00 and bell \x07", "zero \\x00 and bell \\x07"),
        ("right to left \u202e", "right to left \\u202e"),
        ("été 𝄞 中", "été 𝄞 中"),
    ],
)
def test_a_sentence_can_be_shown_anywhere(said, shown):
    assert str(UserError(said)) == shown
    str(UserError(said)).encode("utf-8")


def test_a_sentence_ends():
    text = str(UserError("x" * 100_000))
    assert len(text) == LONGEST and text.endswith("x…")
