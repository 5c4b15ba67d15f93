"""What a terminal shows in the end, and on the way there: an emulator reads the escape codes."""

import re
from contextlib import closing
from dataclasses import replace
from io import StringIO

import pyte
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from engine.cli.terminal import (
    LiveAnswer,
    PlainAnswer,
    answer_view,
    closing_lines,
    closing_remarks,
    row_starts,
)
from engine.conversation.rounds import judged
from engine.conversation.stats import NoRatio, against_plain
from engine.events import (
    Done,
    Draft,
    DraftedToken,
    Failed,
    Prefill,
    Span,
    Stats,
    Text,
    TokenVerdict,
    Verdict,
    WrittenToken,
)
from engine.stretches import Stretch
from tests.support.app.traces import trees

# Every sequence that drawing may use; nothing else may be left but line ends.
OWN_CODES = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\d+A|\x1b\[[KJ]|\x1b\[\?(?:2026|25|7)[hl]|\r")
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Terminal:
    """A LiveAnswer and an emulator that has seen all it wrote."""

    def __init__(self, width=60, height=10):
        self.file = StringIO()
        self.console = Console(
            file=self.file,
            force_terminal=True,
            color_system="256",
            width=width,
            height=height,
            _environ={},
        )
        self.view = LiveAnswer(self.console)
        self.screen = pyte.HistoryScreen(width, height, history=10_000, ratio=0.5)
        self.stream = pyte.Stream(self.screen)
        self.read = 0

    def show(self, *events):
        for event in events:
            self.view.show(event)

    def look(self):
        """The screen after all that was written; a terminal makes "\\r\\n" of "\\n"."""
        self.stream.feed(self.file.getvalue()[self.read :].replace("\n", "\r\n"))
        self.read = len(self.file.getvalue())
        return self.screen

    def rows(self):
        """All that was ever written, the scrollback first, without the empty rest."""
        screen = self.look()
        lines = [*screen.history.top, *(screen.buffer[y] for y in range(screen.lines))]
        return rstripped("".join(line[x].data for x in range(screen.columns)) for line in lines)

    def looks(self, *texts):
        """How the first occurrence of each text on the screen looks, by its first letter."""
        found = []
        for text in texts:
            y, row = next((y, row) for y, row in enumerate(self.look().display) if text in row)
            x = row.find(text) + len(text) - len(text.lstrip())
            found.append(look_of(self.screen.buffer[y][x]))
        return found


def rstripped(rows):
    """Rows without spaces at their ends, and without empty ones at the end."""
    rows = [row.rstrip() for row in rows]
    while rows and not rows[-1]:
        rows.pop()
    return rows


def look_of(char):
    """The colour and the marks of a cell."""
    marks = [char.fg]
    marks += ["bold"] * char.bold + ["italic"] * char.italics
    marks += ["underline"] * char.underscore + ["strike"] * char.strikethrough
    return " ".join(marks)


def draft(number, *texts):
    return Draft("g", number, tuple(DraftedToken(1, text, 0.5) for text in texts), "model")


def verdict(number, proposed, accepted, text):
    origin = "correction" if accepted < proposed else "bonus" if proposed else "plain"
    own = None if text is None else WrittenToken(2, text, 0.5, origin)
    judgements = (TokenVerdict(0.5, 0.5),) * proposed
    return Verdict("g", number, accepted, judgements, own, 0.01, 0.02, 0.04, "full")


def text(number, *parts, first=0):
    """Final text of a round's committed tokens, from number `first` on."""
    spans = tuple(Span(number, first + index, len(part)) for index, part in enumerate(parts))
    return Text("g", "".join(parts), spans)


def done():
    return Done("g", "stop", Stats())


def plain_round(number, token):
    return [verdict(number, 0, 0, token), text(number, token)]


@st.composite
def answers(draw, tokens):
    """Rounds as the engine makes them, with texts that hold some of a round back."""
    events = []
    waiting = []
    for number in range(draw(st.integers(0, 8))):
        tree = draw(trees())
        guesses = draw(st.lists(tokens, min_size=len(tree), max_size=len(tree)))
        path, own = tree.path(draw(st.integers(-1, len(tree) - 1))), draw(tokens)
        if guesses:
            events.append(replace(draft(number, *guesses), parents=tree.parents))
        judged = verdict(number, len(guesses), len(path), own)
        events.append(replace(judged, parents=tree.parents, path=path))
        for index, token in enumerate((*(guesses[i] for i in path), own)):
            # Its part of the text may be another than its own: a stripped space, half a character.
            part = draw(st.just(token) | st.just(token[1:]) | tokens)
            waiting.append((Span(number, index, len(part)), part))
        ready = draw(st.integers(0, len(waiting)))
        events += _final(waiting[:ready])
        del waiting[:ready]
    return [*events, *_final(waiting), done()]


def _final(parts):
    spans = tuple(span for span, _ in parts)
    return [Text("g", "".join(part for _, part in parts), spans)] if parts else []


def text_of(events):
    return "".join(event.delta for event in events if isinstance(event, Text))


def rows_of(text, width):
    starts = row_starts(text, width)
    return rstripped(text[a:b] for a, b in zip(starts, [*starts[1:], None], strict=True))


words = st.text("ab cd\n世界é", min_size=1, max_size=6)


@given(events=answers(words), width=st.integers(4, 30), height=st.integers(2, 8))
def test_rows_are_wrapped_as_if_the_text_had_come_at_once(events, width, height):
    terminal = Terminal(width, height)
    terminal.show(*events)
    assert terminal.rows() == rows_of(text_of(events), width - 1)


@given(text=st.text("ab \n世e\u0301👩", max_size=60), width=st.integers(2, 20))
@example(text="the quick brown  fox\n    indented", width=9)
@example(text="目标模型一次 ok", width=8)
def test_rows_fit_and_lose_nothing(text, width):
    starts = row_starts(text, width)
    assert starts == sorted(set(starts))
    assert starts[0] == 0
    rows = rows_of(text, width)
    for row in rows:
        assert sum(2 if char in WIDE else char != "\u0301" for char in row) <= width
    assert rows == WHOLE_WORDS.get(text, rows)


WIDE = "世👩目标模型一次"
WHOLE_WORDS = {  # where they fit
    "the quick brown  fox\n    indented": ["the quick", "brown", "fox", "    inden", "ted"],
    "目标模型一次 ok": ["目标模型", "一次 ok"],
}


UNDERLINED, STRUCK, BOLD = "green underline", "red strike", "0087ff bold"


def test_of_a_tree_the_best_path_is_drawn():
    terminal = Terminal()
    guess = replace(
        draft(1, " a", " was", " dog", " the", " best", " worst", " of"),
        parents=(-1, -1, 0, 1, 3, 3, 4),
    )
    terminal.show(*plain_round(0, "It"), guess)
    assert terminal.rows() == ["It a dog +5"]
    terminal.show(replace(verdict(1, 7, 2, " end"), parents=guess.parents, path=(1, 3)))
    assert terminal.rows() == ["It was the end best of +3"]
    looks = [UNDERLINED, UNDERLINED, STRUCK, "default strike"]
    assert terminal.looks(" was", " the", " best", " of") == looks
    terminal.show(text(1, " was", " the", " end"), done())
    assert terminal.rows() == ["It was the end"]


READ = Prefill("g", 512, 2048, 256, 0.5)
REASONED = (
    Text("g", "<think>Hm", stretches=(Stretch("mark", 7), Stretch("reasoning", 2))),
    Text("g", ", four.", stretches=(Stretch("reasoning", 7),)),
    Text("g", "</think>Fo", stretches=(Stretch("mark", 8), Stretch("content", 2))),
    Text("g", "ur."),
    Done("g", "stop", Stats()),
)
SCREENS = {
    **{
        f"{special}, {name}": (["The end"], [*plain_round(0, "The"), *events])
        for special in ("<|im_end|>", "</s>")
        for name, events in {
            "drafted": (draft(1, " end", special), verdict(1, 2, 2, None)),
            "written": (draft(1, " end"), verdict(1, 1, 1, special)),
        }.items()
    },
    "a line end in a guess": (
        ["One.⏎Two"],
        [*plain_round(0, "One"), draft(1, "\n", "Two"), verdict(1, 2, 0, ".")],
    ),
    "an indentation in a guess": (
        ["    return"],
        [draft(0, "    return"), verdict(0, 1, 1, "\n"), text(0, "    return"), done()],
    ),
    "text after a stop string": (
        ["yes"],
        [
            *(draft(0, "yes", "\n##", "#"), verdict(0, 3, 3, " more")),
            *(text(0, "yes"), text(0, "\n", "", "", first=1), done()),
        ],
    ),
    "a failure": (["Half"], [*plain_round(0, "Half"), draft(1, " gone"), Failed("g", "No.", "!")]),
    "a prompt of which a part is read": (["reading the prompt: 512 of 2,048 tokens"], [READ]),
    "a prompt that is read": ([], [READ, replace(READ, processed=2048)]),
    "reasoning": (["Thinking: Hm, four.", "", "Four."], REASONED),
}


@pytest.mark.parametrize("name", SCREENS)
def test_what_stands_on_the_screen(name):
    rows, events = SCREENS[name]
    terminal = Terminal()
    terminal.show(*events)
    assert terminal.rows() == rows
    assert not terminal.screen.cursor.hidden or not isinstance(events[-1], Done | Failed)
    if name == "a line end in a guess":
        assert terminal.looks("⏎") == [STRUCK]
    elif name == "an indentation in a guess":
        assert not any(terminal.look().buffer[0][x].underscore for x in range(4))
        assert terminal.looks("return") == [UNDERLINED]
    elif name == "a failure":
        assert (terminal.screen.cursor.x, terminal.screen.cursor.y) == (0, 1)
    elif name == "reasoning":
        plain = PlainAnswer(Console(file=(file := StringIO())))
        for event in events:
            plain.show(event)
        assert file.getvalue().splitlines() == rows
    elif rows == ["The end"]:  # a special token never stands in it, also not at the end
        terminal.show(text(1, " end", ""), done())
        assert terminal.rows() == rows


LOOKS = {
    "accepted": UNDERLINED,
    "correction": BOLD,
    "bonus": "af5fff italic",
    "plain": "default",
}


@given(events=answers(st.text("ab", min_size=1, max_size=3)))
def test_every_character_looks_like_its_token(events):
    terminal = Terminal(width=400)
    terminal.show(*events)
    fates = {
        (one.number, index): token.fate
        for one in judged(events)
        for index, token in enumerate(one.committed)
    }
    spans = [span for event in events if isinstance(event, Text) for span in event.spans]
    expected = [LOOKS[fates[span.round, span.index]] for span in spans for _ in range(span.length)]
    row = terminal.look().buffer[0]
    assert [look_of(row[x]) for x in range(len(expected))] == expected


@given(events=answers(words))
def test_an_interruption_leaves_what_was_final(events):
    terminal = Terminal(width=400)
    with closing(terminal.view):
        terminal.show(*events[:-1], draft(99, " never", " seen"))
    assert terminal.rows() == rows_of(text_of(events), 1000)
    assert not terminal.screen.cursor.hidden


def test_nothing_is_drawn_where_a_console_cannot_show_it():
    colours = {"TERM": "xterm-256color"}
    for kind, terminal, variables in (
        (LiveAnswer, True, colours),
        (PlainAnswer, False, colours),
        (PlainAnswer, True, {"TERM": "dumb"}),
        (PlainAnswer, True, colours | {"NO_COLOR": "1"}),
    ):
        console = Console(force_terminal=terminal, _environ=variables)
        assert type(answer_view(console)) is kind, (terminal, variables)


def test_a_screen_that_is_too_small_loses_nothing():
    terminal = Terminal(width=10, height=4)
    terminal.show(*plain_round(0, "one two three "), draft(1, *[" guess"] * 20))
    assert not terminal.look().history.top
    terminal.show(verdict(1, 20, 0, "four"), text(1, "four"), done())
    assert terminal.rows() == ["one two", "three", "four"]
    terminal = Terminal(width=40)
    terminal.show(*plain_round(0, "a" * 30))
    terminal.console.width = 12  # 30 cells now stand in three rows
    terminal.view.show(draft(1, "b"))
    assert "\r\x1b[2A" in terminal.file.getvalue()


nasty = st.text(
    st.sampled_from("\x1b\x9b\x07\x08\r\t\n\x7f\x00\u202e\u2066\u200f\ud800[]2J31m;?hab 世")
    | st.characters(codec="utf-8"),
    min_size=1,
    max_size=8,
)


@given(events=answers(nasty), width=st.integers(3, 30))
def test_model_text_writes_no_controls(events, width):
    terminal, plain = Terminal(width), StringIO()
    view = PlainAnswer(Console(file=plain))
    for event in events:
        terminal.view.show(event)
        view.show(event)
    assert not CONTROLS.search(OWN_CODES.sub("", terminal.file.getvalue()))
    assert not CONTROLS.search(plain.getvalue().replace("\t", ""))


ANSWER = Stats(
    prompt_tokens=1536,
    reused_tokens=512,
    rounds=50,
    proposed=120,
    accepted=82,
    rejected=30,
    discarded=8,
    corrections=30,
    bonuses=20,
    plain=23,
    plain_seconds=23 * 0.0325,
    decode_seconds=155 / 41.3,
)


COMPARED = replace(ANSWER, reference_seconds=(0.0325,) * 8)
SLOWER = replace(ANSWER, reference_seconds=(0.0209,) * 8)


def test_the_closing_lines():
    for stats, words, figures in (
        (COMPARED, ["1.34×", "68 %", "120"], ["41.3", "3.1"]),
        (SLOWER, ["0.93×"], []),
        (ANSWER, ["68 %", "120", NoRatio.NOT_MEASURED.value], []),
        (replace(ANSWER, reference_seconds=(0.3,) * 8), [NoRatio.NOT_COMPARABLE.value], []),
        (Stats(prompt_tokens=9, rounds=10, plain=10, decode_seconds=2.0), [], ["5.0", "9", "0"]),
        (Stats(prompt_tokens=9), [], ["9", "0"]),
    ):
        gist, numbers = closing_lines(stats)
        assert all(word in gist for word in words), gist
        assert {*figures} <= {*re.findall(r"[\d.]+\d|\d", numbers)}, numbers
        assert ("×" in gist) == isinstance(against_plain(stats), float)
        assert bool(re.search(r"\d", gist)) == bool(stats.proposed)


# Beside the figures


def test_a_loop_and_what_was_not_read_are_told_in_a_line_each():
    whole, part = Prefill("g", 5, 5, 0, 0.1), Prefill("g", 5, 5, 0, 0.1, 1, 12, 8192)
    for ids, prefill, count in (
        (range(200), whole, 0),
        ([1, 2, 3] * 60, whole, 1),
        (range(200), part, 1),
        ([1, 2, 3] * 60, part, 2),
    ):
        written = [WrittenToken(id, "x", 0.5, "plain") for id in ids]
        rounds = [Verdict("g", n, 0, (), own, 0.0, 0.1, 0.1, "") for n, own in enumerate(written)]
        assert len(closing_remarks([prefill, *rounds])) == count
    (unread,) = closing_remarks([part])
    assert ("12 " in unread, "8,192" in unread) == (True, True)
    remark = "It drafts no more."
    assert closing_remarks([Done("g", "stop", Stats(), remark=remark)]) == [remark]
