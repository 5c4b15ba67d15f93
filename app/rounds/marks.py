"""Makes a token's text visible on one line. Knows characters; nothing of Qt or of tokens.

Signs show white space; characters that could reorder or hide other text are left out.
"""

import re

_SIGNS = {" ": "·", "\n": "⏎", "\r": "␍", "\t": "⇥", "\u00a0": "⍽", "\u200c": "", "\u200d": ""}
_NOTHING = "∅"
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # C0, DEL, C1
    # Bidirectional controls, zero width; not the joiners of letters and of emoji.
    "\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff"
    "\ud800-\udfff]"  # lone surrogates, which no font can draw
)


def marked(text: str) -> str:
    """Return `text` on one line, with signs for white space; never empty."""
    return "".join(_SIGNS.get(letter, letter) for letter in flat(text)) or _NOTHING


def flat(text: str) -> str:
    """Return `text` without hidden or reordering characters; all its lines end in "\\n"."""
    text = re.sub("\ufffd+", "\ufffd", _HIDDEN.sub("", text))  # part of a character, once
    return re.sub("[\u2028\u2029\x85]", "\n", text)
