"""The first page's show: a recorded answer in a loop, its drafts running ahead of the text.

Knows the recording and the player; nothing else of the first page.
"""

import json
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from PySide6.QtCore import QEvent, QRect, Qt
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent, QWheelEvent

from app.replay.player import AnswerPlayer, as_drafted
from app.rounds.trace import PieceKind, Replay
from app.steps import timer
from engine.events import (
    Draft,
    DraftedToken,
    Event,
    Span,
    Text,
    TokenVerdict,
    Verdict,
    WrittenToken,
)

FILE = Path(__file__).parents[2] / "resources" / "first_page.json"

_DRAFT_MS, _VERDICT_MS = 250, 350  # of a round
_REST_MS = 2_600  # with the whole text, before it begins again
_LOOPS = 3  # until it rests
_FADE_SECONDS = 1.1  # from the colour of a fate to the text's
_LEADING = 1.5  # of a line


@dataclass(frozen=True, slots=True)
class Recording:
    """A question, the model that answered it, and the answer."""

    question: str
    target: str
    replay: Replay

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.replay.pieces if piece.written)

    @property
    def tokens(self) -> int:
        """The number of tokens of the text."""
        return sum(piece.written for piece in self.replay.pieces)


def read_recording(file: Path = FILE) -> Recording:
    """Read a recording, which has the texts and kinds of tokens, and no probabilities. A script
    made it: `git log -- tests/lab/pictures/first_page.py`."""
    read = json.loads(file.read_text(encoding="utf-8"))
    events: list[Event] = []
    for number, words in enumerate(read["rounds"], start=1):
        drafted = tuple(word for word in words if word[0] in ("accepted", "rejected", "discarded"))
        accepted = [text for kind, text in drafted if kind == "accepted"]
        origin, own = next(word for word in words if word not in drafted)
        draft = tuple(DraftedToken(0, text, 1.0) for _, text in drafted)
        judged = tuple(TokenVerdict(1.0, 1.0) for _ in drafted)
        written = WrittenToken(0, own, 1.0, origin)
        spans = tuple(Span(number, n, len(text)) for n, text in enumerate((*accepted, own)))
        events += [
            Draft("", number, draft, "model"),
            Verdict("", number, len(accepted), judged, written, 0.0, 0.0, 0.0, ""),
            Text("", "".join((*accepted, own)), spans),
        ]
    return Recording(read["question"], read["target"], Replay(events))


class RecordedLoop(AnswerPlayer):
    """Plays a recording three times while it is visible. Then it is `still`: it shows how
    its tokens came.

    Attribute: `place`, the number of rounds whose verdict is shown.
    """

    def __init__(self, recording: Recording, *, still: bool = False) -> None:
        super().__init__(room=0)
        self._replay, self._text, self._still = recording.replay, recording.text, still
        self.place = self._played = 0
        self._judges = False  # whether the draft after that place is shown
        self._next = timer(self, 0, self.go_on)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.be_a_picture()
        self.name("How an answer is drafted")
        self.setAccessibleDescription(self._text)
        self.provenance.fades_after = _FADE_SECONDS
        if still:
            self._rest(frozenset())

    def _rest(self, hidden: frozenset[PieceKind]) -> None:
        self._still = True
        self._next.stop()
        self.provenance.set_hidden(hidden)
        self.provenance.set_shown(True)
        self.show_pieces(self._replay.pieces)

    def go_on(self) -> None:
        """Show the next draft, or the verdict of the draft that is shown."""
        rounds = self._replay.rounds
        if self._judges:
            self.place += 1
            pieces = self._replay.pieces_until(self.place)
            self.show_pieces(pieces, round=rounds[self.place - 1])
            self._next.start(_VERDICT_MS if self.place < len(rounds) else _REST_MS)
        elif self.place == len(rounds) and self._played == _LOOPS:
            return self._rest(frozenset(("rejected", "discarded")))  # no word moves
        else:
            self.place %= len(rounds)
            self._played += self.place == 0
            pieces = self._replay.pieces_until(self.place)
            self.show_pieces(pieces, round=as_drafted(rounds[self.place]))
            self._next.start(_DRAFT_MS)
        self._judges = not self._judges

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self._still:
            self.place, self._judges = 0, False
            self.go_on()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._next.stop()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # the page scrolls

    def _fit(self) -> None:
        """Take the height of the whole text from the start, so that nothing below moves."""
        metrics = self.fontMetrics()
        room = QRect(0, 0, max(1, self.viewport().width() - metrics.averageCharWidth()), 0)
        wrapped = metrics.boundingRect(room, int(Qt.TextFlag.TextWordWrap), self._text).height()
        rows = ceil(wrapped / metrics.lineSpacing())
        self.setFixedHeight(ceil(rows * _LEADING * metrics.height()))
