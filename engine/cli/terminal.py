"""Draws a generation in a terminal: each draft, its accepted tokens, and its struck-out ones.

Knows events and a terminal; nothing of models, tokenizers or the events' origin. What
stays on the screen is the text of the `Text` events, each span in the colour of its token. A
committed token whose text is not final yet is shown as the token itself.

Everything that the model wrote passes through `clean` before it reaches the terminal.
"""

import re
from collections.abc import Sequence

from rich.cells import get_character_cell_size
from rich.console import Console
from rich.segment import Segment, Segments
from rich.style import Style
from rich.text import Text as Styled

from engine.conversation.loops import loops
from engine.conversation.rounds import Round, Rounds, Token, committed
from engine.conversation.stats import NoRatio, against_plain
from engine.events import Done, Event, Failed, Prefill, Stats, Text
from engine.stretches import Kind, Stretch, cut, divided
from models.in_words import clean

# Distinguishable without colour, too: underlined, bold, italic, struck. 256 colours, since the blue
# of 16 can hardly be read on black; rich takes the nearest if the terminal has fewer.
STYLES = {
    "drafted": Style(dim=True),
    "accepted": Style(color="green", underline=True),
    "rejected": Style(color="red", strike=True),
    "discarded": Style(dim=True, strike=True),
    "correction": Style(color="color(33)", bold=True),
    "bonus": Style(color="color(135)", italic=True),
    "plain": Style(),
}

_SPECIAL = re.compile(
    r"<\|.*\|>|<\uff5c.*\uff5c>|</?s>|<(?:eos|bos|pad|(?:start|end)_of_turn)>|\[/?INST\]"
)

_DIM = ("", " dim")  # after the key of a style
STYLES |= {key + _DIM[True]: style + Style(dim=True) for key, style in STYLES.items()}

type Piece = tuple[str, str]  # text, and the key of its style in STYLES


def row_starts(text: str, width: int) -> list[int]:
    """Return where the rows of a text begin; each has at most `width` cells, without the spaces at
    its end.

    A word is not broken if it fits into a row. Later text never changes a row that another row
    follows. Emoji are counted one by one, as in terminals that do not join them.
    """
    starts = [0]
    column = last_break = 0  # the row may end before `last_break`; 0: nowhere
    for place, character in enumerate(text):
        if character == "\n":
            starts.append(place + 1)
            column = last_break = 0
            continue
        size = get_character_cell_size(character)
        if character != " " and column + size > width and last_break:
            starts.append(last_break)
            column, last_break = _cells(text[last_break:place]), 0
        if character != " " and column + size > width and place > starts[-1]:
            starts.append(place)
            column = last_break = 0
        column += size
        after_word = character == " " and not text[starts[-1] : place].isspace()
        # Between wide characters too, but not before an accent.
        if (after_word and place > starts[-1]) or size == 2 or (size == 0 and last_break == place):
            last_break = place + 1
    return starts


class _Kinds:
    """Puts words and blank lines in place of the marks around reasoning, and of calls."""

    def __init__(self) -> None:
        self._last: Kind | None = None
        self._apart = False

    def shown(self, kind: Kind, text: str) -> tuple[str, str]:
        """Return the text to show before a part of a reply, and the text of the part itself."""
        if kind in ("mark", "call"):  # a call has a line of its own, once it has run
            self._apart = True
            return "", ""
        before = ""
        if self._last not in (None, kind) or (self._last and self._apart):
            before = "\n\n"
        if kind == "reasoning" != self._last:
            before += "Thinking: "
        self._last, self._apart = kind, False
        return before, text


class LiveAnswer:
    """Draws an answer as it grows; expects the cursor at the start of a line, and leaves it there.

    Finished rows are written once and scroll away like any output. Only the last row, with the
    draft after it, is drawn again with each event: rejected tokens stay struck out until the event
    after their round's `Text`. To be closed: also after an interruption, text that was not final
    vanishes.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rounds = Rounds()
        self._kinds = _Kinds()
        self._tail = Styled()  # final text of the last row
        self._waiting: dict[
            tuple[int, int], Piece
        ] = {}  # committed tokens without final text, by round and index
        self._ahead: list[Piece] = []  # drafted tokens, or the progress of the prefill
        self._drawn: list[int] = []  # widths of the live rows on the screen

    def show(self, event: Event) -> None:
        """Draw one more event."""
        match self._rounds.push(event):
            case Prefill(processed=processed, total=total):
                line = f"reading the prompt: {processed:,} of {total:,} tokens"
                self._ahead = [(line, "drafted")] if processed < total else []
            case Round() as round:
                self._show_round(round)
            case Text() as text:
                self._tail.append_text(_styled(self._coloured(text)))
            case Done() | Failed():
                self.close()
                return
        self._paint()

    def close(self) -> None:
        """Leave only the final text on the screen."""
        self._waiting, self._ahead = {}, []
        if self._drawn:
            self._paint()
            self._write("\n" if self._drawn[-1] else "")
            self._tail, self._drawn = Styled(), []

    def _show_round(self, round: Round) -> None:
        """Note the committed tokens, which wait for their text, and draw the rest of the draft
        after it: the best path, and how many more tokens a tree has."""
        for index, token in enumerate(round.committed):
            self._waiting[round.number, index] = (clean(token.text), token.fate)
        path = round.best_path
        self._ahead = [_drafted(token) for token in path if token.fate != "accepted"]
        if more := len(round.drafted) - len(path):
            self._ahead.append((f" +{more}", "drafted"))

    def _coloured(self, text: Text) -> list[Piece]:
        """Return the text, each span in its token's style; its tokens no longer wait."""
        pieces: list[Piece] = []
        place = 0
        rest: Sequence[Stretch] = text.parts
        for span in (*text.spans, None):
            end = len(text.delta) if span is None else place + span.length
            style = "plain"
            if span is not None:
                _, style = self._waiting.pop((span.round, span.index), ("", style))
            its, rest = cut(rest, end - place)
            for kind, part in divided(text.delta[place:end], its):
                before, shown = self._kinds.shown(kind, part)
                pieces += [(before, "drafted"), (clean(shown), style + _DIM[kind == "reasoning"])]
            place = end
        return pieces

    def _paint(self) -> None:
        """Write the finished rows, then draw the live rows over the old ones."""
        width = max(1, self._console.width - 1)  # never in the last column, where cursors stick
        *finished, self._tail = _rows(self._tail, width)
        waiting = [piece for piece in self._waiting.values() if not _SPECIAL.fullmatch(piece[0])]
        live = _rows(self._tail + _styled([*waiting, *self._ahead]), width)
        live = [_tidy(row) for row in live[-max(1, self._console.height - 1) :]]
        # From the last row to the first, also if a narrower window has folded them.
        up = sum(max(1, -(-cells // self._console.width)) for cells in self._drawn) - 1
        # As one update (mode 2026) if the terminal can; live rows are not wrapped (mode 7), so that
        # a character that is wider than expected spoils only itself.
        self._write(
            "\x1b[?2026h\x1b[?25l\r" + (f"\x1b[{up}A" if up > 0 else ""),
            *(part for row in finished for part in (_tidy(row), "\x1b[K\n")),
            "\x1b[?7l",
            *(part for row in live[:-1] for part in (row, "\x1b[K\n")),
            live[-1],
            "\x1b[J\x1b[?7h\x1b[?25h\x1b[?2026l",  # a process may be ended, or stopped, in between
        )
        self._drawn = [_cells(row.plain) for row in live]

    def _write(self, *parts: Styled | str) -> None:
        """Write all parts as one print; strings are control codes."""
        segments: list[Segment] = []
        for part in parts:
            if isinstance(part, str):
                segments.append(Segment(part, None, ()))
            else:
                segments += part.render(self._console)
        self._console.print(Segments(segments), end="", crop=False)


class PlainAnswer:
    """Writes only the final text: for pipes, dumb terminals and NO_COLOR."""

    def __init__(self, console: Console) -> None:
        self._file = console.file
        self._kinds = _Kinds()
        self._last = "\n"

    def show(self, event: Event) -> None:
        """Write the event's text, if it has any."""
        match event:
            case Text():
                parts = divided(event.delta, event.stretches)
                shown = (self._kinds.shown(kind, part) for kind, part in parts)
                self._write("".join(before + clean(part) for before, part in shown))
            case Done() | Failed():
                self.close()

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()
        self._last = text[-1:] or self._last

    def close(self) -> None:
        """End the last line."""
        if self._last != "\n":
            self._write("\n")


def answer_view(console: Console) -> LiveAnswer | PlainAnswer:
    """Return a new view of the kind that this console can show."""
    live = console.is_terminal and not console.is_dumb_terminal and not console.no_color
    return LiveAnswer(console) if live else PlainAnswer(console)


def legend() -> Styled:
    """Return the legend of the styles, each word in its own style."""
    words = ["drafted", "accepted", "rejected", "discarded", "correction", "bonus", "plain"]
    styled = [Styled(word, STYLES[word]) for word in words]
    drafted, own = Styled(", ").join(styled[:4]), Styled(", ").join(styled[4:])
    return Styled.assemble(
        *("The drafter's tokens: ", drafted, ", +n (in other branches of a tree)."),
        *(" The target's own tokens: ", own, "."),
    )


def closing_lines(stats: Stats) -> tuple[str, str]:
    """Return an answer's statistics: the effect of drafting in words, then the numbers."""
    gist, ratio = "Nothing was drafted: this was plain decoding.", against_plain(stats)
    if stats.acceptance_rate is not None:
        rate = f"{stats.acceptance_rate:.0%} of {stats.proposed:,} drafted tokens were accepted."
        gist = (
            f"{rate} Against plain decoding: {ratio.value}."
            if isinstance(ratio, NoRatio)
            else f"{ratio:.2f}× as fast as plain decoding here; {rate}"
        )
    read = stats.prompt_tokens - stats.reused_tokens
    parts = [f"prompt: {read:,} tokens read, {stats.reused_tokens:,} reused"]
    if stats.acceptance_rate is not None and stats.acceptance_length is not None:
        parts.insert(0, f"{stats.acceptance_length:.1f} tokens per pass")
    if stats.tokens_per_second is not None:
        parts.insert(0, f"{stats.tokens_per_second:.1f} tokens/s")
    return gist.replace("%", " %"), " · ".join(parts)


def show_closing(console: Console, stats: Stats) -> None:
    """Print an answer's statistics, the words above the numbers."""
    gist, numbers = closing_lines(stats)
    console.print(gist, highlight=False, soft_wrap=True)
    console.print(numbers, style="dim", highlight=False, soft_wrap=True)


def closing_remarks(events: Sequence[Event]) -> list[str]:
    """Return remarks about an answer that the user should read with its statistics; mostly []."""
    remarks = []
    read = next((event for event in reversed(events) if isinstance(event, Prefill)), None)
    if read is not None and read.left_out:
        remarks.append(
            f"{read.left_out:,} earlier messages were left out: "
            f"the context holds only {read.context:,} tokens."
        )
    if loops([token.id for token in committed(events)]):
        remarks.append(
            "The answer repeats itself. Rephrase the question, or try --temperature 0.7 and "
            "--repetition-penalty 1.1."
        )
    return remarks + [event.remark for event in events if isinstance(event, Done) and event.remark]


def _drafted(token: Token) -> Piece:
    """Return a drafted token in one line. A line end is shown as a sign, which can be struck
    out."""
    return clean(token.text).replace("\n", "⏎"), token.fate


def _styled(pieces: Sequence[Piece]) -> Styled:
    return Styled.assemble(*((text.replace("\t", "    "), STYLES[style]) for text, style in pieces))


def _rows(text: Styled, width: int) -> list[Styled]:
    return list(text.divide(row_starts(text.plain, width)[1:]))


def _tidy(row: Styled) -> Styled:
    """Return the row as it is written: no space at its end, no line under its indentation."""
    row.rstrip()
    indent = len(row.plain) - len(row.plain.lstrip())
    return Styled(row.plain[:indent]).append_text(row[indent:]) if indent else row


def _cells(text: str) -> int:
    return sum(get_character_cell_size(character) for character in text)
