"""The colours of the chat, for light and for dark windows. The kinds of tokens have their own, in
`app.theme.colours`. Colours are "#rrggbb" texts; nothing here knows Qt.

Every text has a contrast of at least 4.5 on the papers it is written on, the lines that carry a
meaning at least 3 (WCAG 2.2 AA, success criteria 1.4.3 and 1.4.11).
"""

from dataclasses import dataclass
from typing import Literal

from app.theme.colours import DARK, LIGHT, KindColours, kind_colours

Syntax = Literal[
    "keyword", "name", "text", "number", "comment", "operator", "inserted", "deleted", "heading"
]


@dataclass(frozen=True, slots=True)
class ChatColours:
    """`own` is the paper under what the person wrote, `code` that under code; `muted` is for
    labels, `edge` for frames and `bar` for the bars of quotes, which mean something."""

    kinds: KindColours
    paper: str
    own: str
    code: str
    text: str
    muted: str
    link: str
    edge: str
    bar: str
    warning: str
    hover: str
    syntax: dict[Syntax, str]

    @property
    def dark(self) -> bool:
        """Whether they are those for dark windows."""
        return self.kinds is DARK


LIGHT_CHAT = ChatColours(
    kinds=LIGHT,
    paper=LIGHT.paper,
    own="#eef1f6",
    code="#f5f5f3",
    text="#1f2328",
    muted="#5b626b",
    link="#0a5ac2",
    edge="#d8dbdf",
    bar="#8a9099",
    warning="#9a4b00",
    hover="#e3e6ea",
    syntax={
        "keyword": "#8b2bb0",
        "name": "#0a5a9c",
        "text": "#1a6b37",
        "number": "#9a4b00",
        "comment": "#5f676f",
        "operator": "#4a4f57",
        "inserted": "#18703a",
        "deleted": "#b02530",
        "heading": "#0a5ac2",
    },
)

DARK_CHAT = ChatColours(
    kinds=DARK,
    paper=DARK.paper,
    own="#2a2e36",
    code="#26282c",
    text="#e4e5e7",
    muted="#a2a8b0",
    link="#74b4ff",
    edge="#3a3d43",
    bar="#7d848e",
    warning="#f0b060",
    hover="#383b42",
    syntax={
        "keyword": "#d7a1f0",
        "name": "#7fc1ff",
        "text": "#93d6a0",
        "number": "#f0b57a",
        "comment": "#9aa1aa",
        "operator": "#c3c7cd",
        "inserted": "#74d191",
        "deleted": "#ff9a92",
        "heading": "#74b4ff",
    },
)


def chat_colours(background: str) -> ChatColours:
    """The colours for a window whose background is `background`, "#rrggbb"."""
    return DARK_CHAT if kind_colours(background) is DARK else LIGHT_CHAT
