"""Finds and drops characters that people do not see and a model reads.

These are tags, zero-width characters, controls of writing direction, soft hyphens and control
characters. Joiners that letters and emoji need stay, and so do variation selectors after a
character that they vary.
"""

import re

_JOINED = (  # Arabic and its kin, the scripts of India and of South-East Asia, Mongolian
    "\u0600-\u085f\u0860-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18a9\u1a20-\u1aaf\u1b00-\u1bff"
    "\ua840-\ua877\ua880-\ua8ff\ua930-\uaadf\uabc0-\uabff\ufb50-\ufdff\ufe70-\ufefc"
    "\U00011000-\U00011fff\U0001e900-\U0001e95f"
)
_EMOJI = "\u00a9\u00ae\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_IDEOGRAPHS = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"  # control characters
    "\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
    f"|\u200c(?<![{_JOINED}]\u200c)"
    f"|\u200d(?<![{_JOINED}]\u200d)(?:(?<![{_EMOJI}\ufe0f]\u200d)|(?![{_EMOJI}]))"
    "|[\ufe00-\ufe0f](?<=[\\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff].)"
    "|(?<![\\s\\S])[\ufe00-\ufe0f]"
    f"|[\U000e0100-\U000e01ef](?<![{_IDEOGRAPHS}].)"
)
_NEW_LINE = re.compile("\r\n?|[\x0b\x0c\x85]")
_LONE = re.compile("[\ud800-\udfff]")


def with_plain_lines(text: str) -> str:
    """The text with "\\n" for every kind of line end, and U+FFFD for half a character."""
    if _LONE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _NEW_LINE.sub("\n", text)


def hidden_places(text: str) -> list[int]:
    """The offsets of hidden characters, in order."""
    return [found.start() for found in _HIDDEN.finditer(text)]


def without_hidden(text: str) -> tuple[str, int]:
    """Return the text without hidden characters, and their number."""
    return _HIDDEN.subn("", text)


def in_one_line(name: str) -> str:
    """A name as one line without hidden characters: a file's name may have any characters."""
    return " ".join(without_hidden(with_plain_lines(name))[0].split())
