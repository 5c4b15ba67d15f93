"""Shows the provenance of each token of an answer, over its rendered text.

Colours and lines mark the kinds of tokens (see `app.theme.palette`). Rejected and discarded tokens
are shown at their places, small and struck out, as characters that are not copied. While an
answer is written, only its newest tokens are marked, and their colours fade into the text.

The marks are layout formats, as `app.markdown.highlight` uses them: Qt would take some five times
as long to paint selections. Knows pieces and a view; not rounds or events.
"""

import math
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from PySide6.QtCore import QObject, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QResizeEvent,
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
    QTextLayout,
)
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from app.markdown.formats import REJECTED, TOKEN, UNDERLINES
from app.markdown.page import RejectedSpan
from app.markdown.view import TextView
from app.rounds.explained import KINDS, WHY_DISCARDED, WHY_FORCED, KindWord
from app.rounds.trace import Piece, PieceKind
from app.steps import timer
from app.theme.palette import Palette, line_of, mixed
from app.theme.style import sign_button, small_font

_Stretch = tuple[int, int, PieceKind]  # start and end in the document
_Laid = tuple[int, int, PieceKind, int]  # the same in a block, and how far it has faded
_LAID = 1  # the state of blocks with marks; new blocks have another
_LONGEST = 1_000  # characters; a longer piece is text of unknown origin, not a token
_MOST_ALTERNATIVES = 4  # in a tooltip
_APART, _BETWEEN_ROWS, _ABOVE_WORDS = 14, 5, 4  # pixels, of the words of the legend
_SWITCHES: tuple[PieceKind, ...] = ("rejected", "discarded")
_STEP_SECONDS, _STEPS = 0.2, 6  # of a colour that fades into the text's
_FLOOD = 0.5  # rejected and discarded tokens for a token of the text, above which they are hidden
_MEANINGS: dict[PieceKind, str] = {
    "accepted": "drafted and accepted",
    "correction": "the target\u2019s correction",
    "bonus": "the target\u2019s bonus token",
    "plain": "plain, without a draft",
    "forced": f"forced: {WHY_FORCED}",
    "rejected": "drafted and rejected",
    "discarded": f"drafted and discarded, {WHY_DISCARDED}",
}


def describe(piece: Piece) -> str:
    """Describe a token in plain lines: how it came, its probabilities, its round."""
    if not piece.round:
        return "This text has no token data."
    lines = [f"{_visible(piece.text)}  {_MEANINGS[piece.kind]}"]
    place = f", place {piece.position} of the draft" if piece.position else ""
    lines.append(f"round {piece.round}{place}")
    if piece.kind == "forced":
        return "\n".join(lines)
    figures = [f"p = {piece.p:.3g} (target)"]
    if piece.q is not None:
        figures.append(f"q = {piece.q:.3g} (drafter)")
    if piece.confidence is not None:
        figures.append(f"drafter confidence {piece.confidence:.0%}")
    if piece.chance is not None:
        figures.append(f"chance of acceptance {piece.chance:.0%}")
    lines.append("   ".join(figures))
    if piece.chance and piece.q and piece.chance > 1.01 * (piece.p or 0.0) / piece.q:
        lines.append("(drafts are verified together, so it can exceed p / q)")
    if piece.drafter:
        lines.append(f"drafter: {piece.drafter}")
    if piece.alternatives:
        lines.append("rejected alternatives:")
    for token in piece.alternatives[:_MOST_ALTERNATIVES]:
        lines.append(f"    {_visible(token.text)}  p = {token.p:.3g}   q = {token.q:.3g}")
    if (more := len(piece.alternatives) - _MOST_ALTERNATIVES) > 0:
        lines.append(f"    and {more} more")
    return "\n".join(lines)


class Provenance(QObject):
    """The provenance of one message's tokens, shown over its text while `shown`.

    Attributes: `counts`, of its tokens by their kinds; `fades_after`: while it is not shown, each
    new token is marked for this number of seconds; then its colour fades. Tokens from before are
    not new. Signal:
    `kinds_chosen` with the hidden kinds, which the user has chosen: the text must be written again.
    """

    kinds_chosen = Signal(frozenset)

    def __init__(
        self, view: TextView, colours: Palette, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(view)
        self._view = view
        self._colours = colours
        self._clock = clock
        self.fades_after = 0.0
        self._came: list[float] = []  # when each committed piece was given
        self._hidden: frozenset[PieceKind] | None = None  # as it was chosen
        self._timer = timer(self, round(1000 * _STEP_SECONDS), self.refresh)
        self._pieces: tuple[Piece, ...] = ()
        self.counts = Counter[PieceKind]()
        self._starts: list[int] = []  # where each committed piece begins, in the given text
        self._numbers: list[int] = []  # and its index
        self._rejected: list[RejectedSpan] = []
        self._length = 0  # of the pieces' text
        self._kept: dict[int, list[_Stretch]] = {}  # by token
        self._laid: dict[int, list[_Laid]] = {}  # coloured stretches, by the start of a block
        self._formats: dict[tuple[PieceKind, int], QTextCharFormat] = {}
        self._rewritten = 0  # the number of rewrites of the text when tokens were kept
        self._shown = False
        view.tip = self.tip
        # Not at once: the view is being painted.
        view.seen_changed.connect(self.refresh, Qt.ConnectionType.QueuedConnection)

    def set_shown(self, shown: bool) -> None:
        """Show or hide the provenance. Takes effect with the next steps."""
        self._shown = shown
        self._start_over()
        self._view.text.show_formulas(not shown)  # after the marks are removed

    @property
    def hidden(self) -> frozenset[PieceKind]:
        """The kinds of unwritten tokens that are not shown. Before that is chosen, both kinds if
        they would flood the text."""
        if self._hidden is not None:
            return self._hidden
        flood = len(self._rejected) > _FLOOD * max(1, len(self._starts))
        return frozenset(("rejected", "discarded") if flood else ())

    def set_hidden(self, hidden: frozenset[PieceKind] | None) -> None:
        """Hide these kinds of tokens; the usual ones for None. Call this before they are shown."""
        self._hidden = hidden

    def hide_kind(self, kind: PieceKind, hidden: bool) -> None:
        """Hide or show the rejected or the discarded tokens."""
        self._hidden = self.hidden | {kind} if hidden else self.hidden - {kind}
        self._start_over()
        self.kinds_chosen.emit(self._hidden)

    def set_pieces(self, pieces: tuple[Piece, ...]) -> None:
        """Set the tokens so far. If they do not begin with the earlier ones, start again."""
        known = len(self._pieces)
        if pieces[:known] != self._pieces:
            self._starts, self._numbers, self._rejected, self._came = [], [], [], []
            self.counts.clear()
            self._length = known = 0
            self._start_over()
        self._pieces = pieces
        for number in range(known, len(pieces)):
            piece = pieces[number]
            self.counts[piece.kind] += 1
            if not piece.written:
                discarded = piece.kind == "discarded"
                self._rejected.append(RejectedSpan(self._length, piece.text, number, discarded))
            elif piece.text:
                self._starts.append(self._length)
                self._numbers.append(number)
                self._came.append(self._clock() if self.fades_after else -math.inf)
                self._length += len(piece.text)
        if self._shown:
            self._view.text.set_rejected(self._visible_rejected())

    def set_colours(self, colours: Palette) -> None:
        """Use other colours. The text is written again."""
        self._colours = colours
        self._start_over()

    def refresh(self) -> None:
        """Mark the tokens in sight. Call this after some steps."""
        shown = self._shown or self.fades_after > 0.0
        places = self._view.visible_places() if shown else None
        if places is None or not self._starts:
            return
        text, now = self._view.text, self._clock()
        first = self._token_at(text.source_before(places[0]))
        last = self._token_at(text.source_before(places[1])) + 1
        if not self._shown:
            newest = bisect_right(self._came, now - self.fades_after)
            first = max(first, newest)
            if newest < len(self._came) and self.fades_after < math.inf:
                self._timer.start()
        settled = bisect_right(self._starts, text.settled_until()) - 1
        if text.rewritten != self._rewritten:  # tokens may have moved
            self._rewritten = text.rewritten
            self._kept.clear()
        found: dict[int, list[_Laid]] = {}  # by the start of their block
        at = behind = 0  # the start of a block, and of the next
        for token in range(first, last):
            stretches = self._kept.get(token)
            if stretches is None:
                stretches = self._stretches(token)
                if token < settled:
                    self._kept[token] = stretches
            faded = 0 if self._shown else _faded(self._came[token] + self.fades_after - now)
            for start, end, kind in stretches:
                if not at <= start < behind:
                    block = self._view.document().findBlock(start)
                    at = block.position()
                    behind = at + block.length()
                found.setdefault(at, []).append((start - at, end - at, kind, faded))
        block = self._view.document().findBlock(places[0])
        while block.isValid() and block.position() <= places[1]:
            if block.userState() == _LAID:  # perhaps of a text that is gone
                found.setdefault(block.position(), [])
            block = block.next()
        laid = (self._lay(place, found[place]) for place in sorted(found))
        self._lay_out(block for block in laid if block is not None)

    def _lay(self, position: int, wanted: list[_Laid]) -> QTextBlock | None:
        """Colour a block's text. Returns None if that changes nothing."""
        block = self._view.document().findBlock(position)
        if block.userState() == _LAID and self._laid.get(position) == wanted:
            return None
        self._laid[position] = wanted
        layout = block.layout()
        others = [found for found in layout.formats() if not _is_ours(found)]
        layout.setFormats(others + [self._range(*stretch) for stretch in wanted])
        block.setUserState(_LAID)
        return block

    def _lift(self) -> None:
        """Remove all marks from the text."""
        lifted = []
        for position in sorted(self._laid):
            block = self._view.document().findBlock(position)
            if block.userState() == _LAID:
                layout = block.layout()
                layout.setFormats([found for found in layout.formats() if not _is_ours(found)])
                block.setUserState(-1)
                lifted.append(block)
        self._laid.clear()
        self._lay_out(lifted)

    def _lay_out(self, changed: Iterable[QTextBlock]) -> None:
        """Redraw blocks in the order of the text. Neighbours are joined: Qt would lay out a whole
        table again for each of its cells."""
        begin = end = -1
        for block in changed:
            if block.position() != end:
                self._mark_dirty(begin, end)
                begin = block.position()
            end = block.position() + block.length()
        self._mark_dirty(begin, end)

    def _mark_dirty(self, begin: int, end: int) -> None:
        if begin < end:
            self._view.document().markContentsDirty(begin, end - begin)

    def tip(self, position: int) -> str:
        """Describe the token at this place of the document; empty if there is none."""
        piece = self.piece_at(position) if self._shown else None
        return describe(piece) if piece else ""

    def piece_at(self, position: int) -> Piece | None:
        """Return the token shown at this place of the document, or None."""
        cursor = QTextCursor(self._view.document())
        cursor.setPosition(min(position + 1, self._view.document().characterCount() - 1))
        span = cursor.charFormat().property(REJECTED)
        if span is not None:
            return self._pieces[int(span)]
        source = self._view.text.source_at(position)
        if source is None or source >= self._length:
            return None
        return self._pieces[self._numbers[bisect_right(self._starts, source) - 1]]

    def _start_over(self) -> None:
        self._kept.clear()
        self._lift()
        self._formats.clear()
        self._view.text.set_rejected(self._visible_rejected() if self._shown else [])

    def _visible_rejected(self) -> list[RejectedSpan]:
        hidden, pieces = self.hidden, self._pieces
        return [span for span in self._rejected if pieces[span.number].kind not in hidden]

    def _token_at(self, source: int) -> int:
        """Return the index of the token at this character of the given text; the last token for
        those after it."""
        return max(0, bisect_right(self._starts, source) - 1)

    def _stretches(self, token: int) -> list[_Stretch]:
        piece = self._pieces[self._numbers[token]]
        if len(piece.text) > _LONGEST or piece.text.isspace():
            return []
        start = self._starts[token]
        # Without the space in front, the beginning of a token is visible.
        space = len(piece.text) - len(piece.text.lstrip())
        begin = start + (space if space < len(piece.text) else 0)
        ranges = self._view.text.ranges(begin, start + len(piece.text))
        return [(start, end, piece.kind) for start, end in ranges]

    def _range(self, start: int, end: int, kind: PieceKind, faded: int) -> QTextLayout.FormatRange:
        made = QTextLayout.FormatRange()
        made.start, made.length = start, end - start
        if (kind, faded) not in self._formats:
            self._formats[kind, faded] = self._format(kind, faded)
        made.format = self._formats[kind, faded]
        return made

    def _format(self, kind: PieceKind, faded: int) -> QTextCharFormat:
        made = QTextCharFormat()
        share, colours = faded / _STEPS, self._colours
        made.setProperty(TOKEN, True)
        made.setForeground(QColor(mixed(colours.of(kind), colours.text, share)))
        if line_of(kind) != "none":  # a link keeps its own
            made.setUnderlineStyle(UNDERLINES[line_of(kind)])
            made.setUnderlineColor(QColor(mixed(colours.of(kind), colours.paper, share)))
        return made


def _faded(left: float) -> int:
    """Return the step of fading of a token that is marked for this number of seconds more."""
    return max(0, _STEPS - int(min(left / _STEP_SECONDS, _STEPS)))


def _is_ours(found: QTextLayout.FormatRange) -> bool:
    return found.format.hasProperty(TOKEN)


class Legend(QWidget):
    """Explains the colours and lines in rows of words, each with the number of such tokens and a
    tooltip. Words for tokens that are not in the answer switch them on and off.

    Attribute: `buttons`, which the arrow keys reach.
    """

    def __init__(self, provenance: Provenance, *, explain: Callable[[], None]) -> None:
        """`explain` shows the dialog that explains all of it."""
        super().__init__()
        self.setAccessibleName("Legend of the tokens")
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self._provenance = provenance
        self._counts: Counter[PieceKind] | None = None  # as shown
        self.words = {kind: KindWord(kind) for kind in KINDS}
        for kind in _SWITCHES:
            self.words[kind].setCheckable(True)
            self.words[kind].clicked.connect(partial(self._switch, kind))
        more = sign_button("?", "What am I looking at?", lambda: explain())
        more.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._parts: tuple[QAbstractButton, ...] = (*self.words.values(), more)
        for part in self._parts:
            part.setParent(self)
            part.show()
        self.buttons = (*(self.words[kind] for kind in _SWITCHES), more)
        self.refresh()

    def refresh(self) -> None:
        """Count what the answer has, and show which words are switched on."""
        counts = self._provenance.counts
        for kind in _SWITCHES:
            self.words[kind].setChecked(kind not in self._provenance.hidden)
        if counts != self._counts:
            self._counts = counts.copy()
            for kind, word in self.words.items():
                word.show_count(counts[kind])
                word.setVisible(counts[kind] > 0)
            self.updateGeometry()

    def set_appearance(self, font: QFont) -> None:
        """Use this font in a smaller size."""
        for part in self._parts:
            part.setFont(small_font(font))
        self.updateGeometry()

    def heightForWidth(self, width: int) -> int:
        """Place the words in rows of this width, and return their height."""
        left, top, height = 0, _ABOVE_WORDS, 0
        shown = [part for part in self._parts if not part.isHidden()]
        for part in shown:
            size = part.sizeHint()
            last = shown[-1].sizeHint().width() + _APART if part in shown[-2:-1] else 0
            if left and part is not shown[-1] and left + size.width() + last > width:
                left, top = 0, top + height + _BETWEEN_ROWS
            height = max(height, size.height())
            part.setGeometry(QRect(QPoint(left, top), size))
            left += size.width() + _APART
        return top + height

    def sizeHint(self) -> QSize:
        return QSize(0, self.heightForWidth(self.width()))

    minimumSizeHint = sizeHint

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.heightForWidth(self.width())

    def _switch(self, kind: PieceKind) -> None:
        self._provenance.hide_kind(kind, not self.words[kind].isChecked())


def _visible(text: str) -> str:
    return "\u201c" + text.replace("\n", "\u21b5").replace("\t", "\u21e5") + "\u201d"
