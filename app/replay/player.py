"""Plays an answer in the answer itself: its text as Markdown, each draft running ahead of it.

Knows text, rounds and tokens; not where they come from, or when they are shown.
"""

import time
from collections.abc import Iterable
from dataclasses import replace

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from app.chat.draft_ahead import DraftAhead
from app.chat.provenance import Provenance
from app.layout import FREE, column_of
from app.markdown.asides import Aside
from app.markdown.formats import Formats
from app.markdown.links import ask_to_open
from app.markdown.streaming import StreamingMarkdown
from app.markdown.view import TextShade, TextView
from app.rounds.trace import Piece
from app.theme.style import colours_of, motion_is_reduced
from engine.conversation.rounds import Round
from engine.stretches import Stretch

_FRAME_MS = 33
_BUDGET_SECONDS = 0.01  # of a frame, for writing
_ROOM = 60  # pixels below the text, for a draft
_PINNED = 24  # pixels from the end at which the newest line stays in sight


class AnswerPlayer(QScrollArea):
    """Shows an answer up to any place. The newest line stays in sight while it is there.

    Attribute: `provenance`, which marks the tokens given by `show_pieces`.
    """

    def __init__(self, *, room: int = _ROOM) -> None:
        """`room` is for a draft: the pixels below the text."""
        super().__init__()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._timer = QTimer(self, interval=_FRAME_MS)
        self._timer.timeout.connect(self._step)
        self._pinned = True
        self._round: Round | None = None
        self._view = TextView(Formats(self.font(), colours_of(self)), StreamingMarkdown())
        self._view.link_asked.connect(lambda address: ask_to_open(self, address))
        self.provenance = Provenance(self._view, colours_of(self))
        page = QWidget()
        column_of(self._view, FREE, on=page, margins=(0, 0, 8, room))
        self.setWidget(page)
        for part in (page, self.viewport()):
            part.setAutoFillBackground(False)  # the owner's surface shows through
        self._ahead = DraftAhead(self._view, colours_of(self), over=page)
        self._ahead.calm = motion_is_reduced()
        self.verticalScrollBar().valueChanged.connect(self._on_scrolled)
        self.verticalScrollBar().rangeChanged.connect(self._on_grown)

    @property
    def text(self) -> str:
        """The text as it was given."""
        return self._view.text.given

    def name(self, name: str) -> None:
        """Set the name that a screen reader says."""
        self.setAccessibleName(name)
        self._view.setAccessibleName(name)

    def clear(self) -> None:
        """Start an answer."""
        self._pinned = True
        self._round = None
        self.provenance.set_pieces(())
        self._view.set_shades(())
        self._view.text.set_asides(())
        self._view.text.cut(0)
        self._write_soon()

    def be_a_picture(self) -> None:
        """Take no selection, no focus and no tooltip."""
        self._view.setTextInteractionFlags(Qt.TextInteractionFlag.NoTextInteraction)
        self._view.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._view.tip = lambda place: ""

    def set_stretches(self, stretches: tuple[Stretch, ...]) -> None:
        """Say which stretches the text has."""
        self._view.text.set_stretches(stretches)

    def append(self, delta: str, round: Round | None) -> None:
        """Add text, and show the draft of this round after it. The next frame shows both."""
        self._view.text.append(delta)
        self._round = round
        self._write_soon()

    def show_pieces(
        self,
        pieces: tuple[Piece, ...],
        *,
        round: Round | None = None,
        asides: Iterable[Aside] = (),
        newest: int = 0,
    ) -> None:
        """Show the answer that these tokens are, then the draft of `round`. The last `newest`
        tokens are tinted. `asides` are lines at places of the text."""
        text = "".join(piece.text for piece in pieces if piece.written)
        if not text.startswith(self.text):
            self._view.text.cut(len(text) if self.text.startswith(text) else 0)
        self._view.text.append(text[len(self.text) :])
        self._view.text.set_asides(tuple(aside for aside in asides if aside.place <= len(text)))
        if text and self._view.text.hides(len(text) - 1):
            self._view.text.reveal(len(text) - 1)
        self.provenance.set_pieces(pieces)
        begin = len(text) - sum(len(p.text) for p in pieces[len(pieces) - newest :] if p.written)
        shade = TextShade(begin, len(text), colours_of(self).muted, "none")
        self._view.set_shades((shade,) if begin < len(text) else ())
        self._round = round
        self._step()
        self._write_soon()

    def finish(self) -> None:
        """End the text."""
        self._view.text.finish()
        self._round = None
        self._write_soon()

    def _write_soon(self) -> None:
        if not self._timer.isActive():
            self._timer.start()

    def _step(self) -> None:
        until = time.monotonic() + _BUDGET_SECONDS
        while (more := self._view.step()) and time.monotonic() < until:
            pass
        self._view.place_buttons()
        self._view.lay_marks()
        self.provenance.refresh()
        if not more:
            self._timer.stop()
            self._ahead.show_round(self._round)

    def _on_scrolled(self, value: int) -> None:
        self._pinned = value >= self.verticalScrollBar().maximum() - _PINNED

    def _on_grown(self, low: int, high: int) -> None:
        if self._pinned:
            self.verticalScrollBar().setValue(high)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange):
            self._view.set_formats(Formats(self.font(), colours_of(self)))
            self.provenance.set_colours(colours_of(self))
            self._ahead.set_colours(colours_of(self))
            self._write_soon()


def as_drafted(round: Round) -> Round:
    """Return a round as it was before its verdict."""
    drafted = tuple(replace(token, fate="drafted") for token in round.drafted)
    return replace(round, tokens=drafted, verdict=None)
