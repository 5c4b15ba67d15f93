"""Reads a reply while it is written: content, reasoning, and tool calls.

A reply is read as stretches of its text (`engine.stretches`), and its calls as pieces. Both follow
from the text alone, not from how it was cut. Marks, and white space next to them, are a stretch of
their own. Text that looked like a call and is none becomes content.

Within reasoning only its closing mark is looked for. Stop strings end the content, and neither
reasoning nor a call: `engine.conversation.text.AnswerText` looks for them.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from engine.events import CallPiece
from engine.replies.call_reading import expect_mark, read_calls
from engine.replies.calls import Calls
from engine.replies.families import CallRow
from engine.replies.harmony import read_messages
from engine.replies.incoming import Incoming, Reading, Unreadable
from engine.replies.syntax import ReplySyntax
from engine.replies.tools import Tool
from engine.stretches import Kind, Stretch, divided

_QUOTES = ("`", "'", '"')


class ReplyReader:
    """Reads one reply while it is written. The stretches of all pushes and of `finish` together
    cover the whole text, and do not depend on how it was cut.

    Attribute: `special`, whether the names of special tokens must be in the text.
    """

    def __init__(
        self,
        syntax: ReplySyntax,
        *,
        tools: Sequence[Tool] = (),
        certain: bool = False,
        prompt_ending: str = "",
        written: str = "",
    ) -> None:
        """`tools`: the only ones that are called; without tools, calls are content. `certain`: a
        grammar makes every call that begins a whole one, so its text is a call's at once.
        `prompt_ending`: the last characters of the prompt, which show whether the reply begins
        within reasoning. `written`: the beginning of the reply, if this text continues it.
        """
        self.special = bool(syntax.special)
        self._syntax, self._tools, self._certain = syntax, tools, certain
        self._incoming = Incoming()
        self._stretches: list[Stretch] = []
        self._covered = 0  # characters that have a stretch
        self._cut = self._calls_end = False  # a whole call was read last
        self._last = ""  # the last character of the content
        self._calls = Calls(self._incoming, self._call_text, tools, certain=certain)
        self._marked: dict[str, list[CallRow]] = {}  # by the marks at which calls begin
        self._unmarked: list[CallRow] = []
        for row in syntax.row.calls if tools else ():
            rows = self._unmarked if row.unmarked else self._marked.setdefault(row.trigger, [])
            rows.append(row)
        self._reading = self._reply(syntax.begins_inside(prompt_ending))
        if syntax.family == "harmony":
            self._reading = read_messages(
                self._incoming,
                self._calls if tools else None,
                content=self._content,
                reasoning=self._reasoned,
            )
        self._earlier = len(written)  # characters of the beginning whose kind was not certain
        self.push(written)
        self.calls()

    def push(self, text: str) -> list[Stretch]:
        """Add text; return the stretches that are certain now."""
        self._incoming.add(text)
        return list(self._advance())

    def finish(self, *, cut: bool = False) -> list[Stretch]:
        """End the reply; return the stretches of the text that was held back.

        `cut`: the model was not ready. Then an unfinished mark at the end is a mark, and an
        unfinished call is a call, if a mark began it. After a whole call an unfinished mark is a
        mark in any case.
        """
        self._cut = cut
        self._incoming.end(cut=cut or self._calls_end)
        found = [*self._advance()]
        self._incoming.take_all()
        self._cover("mark", 0)
        return [*found, *self._advance()]

    def calls(self) -> tuple[CallPiece, ...]:
        """Return the pieces of calls that came since the last call of this."""
        return self._calls.take()

    def _advance(self) -> Iterator[Stretch]:
        with suppress(StopIteration):
            next(self._reading)
        for stretch in self._stretches:
            earlier = min(self._earlier, stretch.length)
            self._earlier -= earlier
            if stretch.length > earlier:
                yield Stretch(stretch.kind, stretch.length - earlier)
        self._stretches.clear()

    def _content(self, text: str) -> None:
        if text:
            self._cover("content", len(text))
            self._last = text[-1]
            self._calls_end &= text.isspace()

    def _reasoned(self, text: str) -> None:
        self._cover("reasoning", len(text))

    def _call_text(self) -> None:
        self._cover("call", self._incoming.position - self._covered)

    def _cover(self, kind: Kind, length: int) -> None:
        """Give the `length` characters that were taken last their stretch, and those before."""
        end = self._incoming.position
        before, length = end - length - self._covered, min(length, end - self._covered)
        self._stretches += [Stretch("mark", max(0, before)), Stretch(kind, length)]
        self._covered = end

    def _reply(self, inside_reasoning: bool) -> Reading[None]:
        reasoning, row = self._syntax.reasoning, self._syntax.row
        opening = reasoning.opening.rstrip() if reasoning else ""
        closing = reasoning.closing if reasoning else ""
        # No text spells a special token.
        token = opening.startswith(self._syntax.special or "\0")
        marks = [*self._marked, *row.skipped, *filter(None, (opening, closing))]
        trim = bool(self._marked or row.skipped or token)
        beginning, behind_mark, named = True, False, False
        if inside_reasoning and reasoning:
            yield from self._reasoning()
            behind_mark = True
        while True:
            if beginning and (yield from self._beginning(behind_mark=behind_mark)):
                behind_mark = True
                continue
            if self._incoming.over:
                return
            mark = yield from self._incoming.text_until(marks, self._content, trim=trim)
            if not mark:
                return
            self._incoming.remember()
            space = yield from self._incoming.spaces()
            if mark in self._marked:
                beginning = behind_mark = yield from self._call(self._marked[mark], mark)
                continue
            text = not token and mark not in row.skipped
            if opening and (yield from self._incoming.comes(opening)):
                mark = opening  # that another mark begins
            named = named or (not space and self._last in _QUOTES)
            about = text and (mark == opening or named)  # the text is about the marks
            if text and self._last and not about:
                self._content(self._incoming.taken())
            self._incoming.take(len(mark))
            words, beginning, behind_mark = self._incoming.taken(), not about, not about
            if about:
                self._content(words)
                named = mark == opening
            elif mark == opening:
                yield from self._reasoning()

    def _beginning(self, *, behind_mark: bool) -> Reading[bool]:
        """Read reasoning, a header or an unmarked call, which can only be at the beginning of a
        reply or right after a mark. Returns whether there was one."""
        incoming = self._incoming
        incoming.remember()
        yield from incoming.spaces()
        if behind_mark:
            incoming.remember()
        reasoning, header = self._syntax.reasoning, self._syntax.row.header
        if reasoning and (yield from incoming.comes(opening := reasoning.opening.rstrip())):
            incoming.take(len(opening))
            incoming.taken()
            yield from self._reasoning()
            return True
        if header:
            try:
                yield from expect_mark(incoming, header)
            except Unreadable:
                incoming.go_back()
                yield from incoming.spaces()
            else:
                incoming.taken()
                return True
        if self._unmarked:
            first = yield from incoming.peek()
            if rows := [row for row in self._unmarked if first and row.starts.startswith(first)]:
                return (yield from self._call(rows, first))
        space = incoming.taken()
        if space and not (self._marked and (yield from incoming.comes(*self._marked))):
            self._content(space)
        return False

    def _reasoning(self) -> Reading[None]:
        """Read from after the opening mark to after the closing one.

        Text from the mark of a call on is held back: if the reply ends with calls of known tools,
        and the reasoning was not closed, they are calls.
        """
        assert self._syntax.reasoning
        incoming, closing = self._incoming, self._syntax.reasoning.closing
        again = self._syntax.reasoning.opening.rstrip()  # models repeat what the prompt has
        yield from incoming.spaces()
        while (yield from incoming.comes(again)):
            incoming.take(len(again))
            yield from incoming.spaces()
        ends = [closing, *self._syntax.row.skipped, *self._marked]
        end = yield from incoming.text_until(ends, self._reasoned, trim=True)
        if end in self._syntax.row.skipped and end != closing:
            return  # the model went on without the closing mark
        if end in self._marked:
            incoming.remember()
            held: list[str] = []
            closed = yield from incoming.text_until([closing], held.append, trim=True)
            if not closed and self._only_calls("".join(held)):
                incoming.go_back()
                return
            incoming.taken()
            self._reasoned("".join(held))
        yield from incoming.spaces()
        incoming.take(len(closing))

    def _only_calls(self, text: str) -> bool:
        """Whether a text consists of calls of known tools."""
        reader = ReplyReader(replace(self._syntax, reasoning=None), tools=self._tools)
        parts = divided(text, [*reader.push(text), *reader.finish()])
        names = [piece.name for piece in reader.calls() if piece.name]
        content = any(kind == "content" and not part.isspace() for kind, part in parts)
        return bool(names) and all(map(self._calls.knows, names)) and not content

    def _call(self, rows: Sequence[CallRow], mark: str) -> Reading[bool]:
        """Read calls from a remembered place on, where `mark` is next, by the first row that fits.
        Returns whether there was one."""
        for number, row in enumerate(rows, 1):
            whole = self._calls.whole
            try:
                yield from read_calls(self._incoming, self._calls, row)
            except Unreadable:
                unfinished = self._incoming.cut and self._incoming.over
                begun = self._calls.begun or whole != self._calls.whole
                if number < len(rows) and not begun and not unfinished:
                    self._incoming.go_back()
                    yield from self._incoming.spaces()
                    continue
                self._calls.give_up()
                if unfinished:
                    self._incoming.take_all()
                text = self._incoming.taken()
                if unfinished and self._cut and (self._certain or not row.unmarked):
                    self._cover("call", len(text))
                elif not unfinished or self._cut or text.strip() not in (mark, row.opening):
                    self._content(text if text.strip() else text + self._incoming.take(len(mark)))
                return False
            self._incoming.taken()
            self._calls_end = True
            return True
        return False
