"""Reads a reply as stretches of its text (`engine.stretches`), and the calls in it as pieces."""

from collections.abc import Iterator, Sequence

from engine.events import CallPiece
from engine.replies.parser import ReplyParser
from engine.replies.parts import CallArguments, CallBegan, CallBroken, CallEnded, Part
from engine.replies.syntax import ReplySyntax
from engine.replies.tools import Tool
from engine.stretches import Stretch


class ReplyReader:
    """Reads one reply while it is written. The stretches of all pushes and of `finish` together are
    those of the whole text, however it was cut.

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
        """`prompt_ending`: the last characters of the prompt, which show whether the reply begins
        within reasoning. `written`: the beginning of the reply, if this text continues it. `tools`
        and `certain` as for `ReplyParser`: without tools, calls are content.
        """
        self.special = bool(syntax.special)
        inside = syntax.begins_inside(prompt_ending)
        self._parser = ReplyParser(syntax, tools=tools, inside_reasoning=inside, certain=certain)
        self._certain = certain
        self._open: list[CallPiece] = []  # of a call that may be none
        self._calls: list[CallPiece] = []
        self._whole = 0  # calls
        self._earlier = len(written)  # characters of the beginning whose kind was not certain
        self.push(written)
        self._calls.clear()

    def push(self, text: str) -> list[Stretch]:
        """Add text; return the stretches that are certain now."""
        return list(self._read(self._parser.push(text)))

    def finish(self, *, cut: bool = False) -> list[Stretch]:
        """End the reply; return the stretches of the text that was held back. `cut` as for
        `ReplyParser.finish`."""
        return list(self._read(self._parser.finish(cut=cut)))

    def calls(self) -> tuple[CallPiece, ...]:
        """Return the pieces of calls that came since the last call of this."""
        found, self._calls = tuple(self._calls), []
        return found

    def _read(self, parts: Sequence[Part]) -> Iterator[Stretch]:
        for part in parts:
            self._take(part)
        for one in self._parser.stretches():
            earlier = min(self._earlier, one.length)
            self._earlier -= earlier
            if one.length > earlier:
                yield Stretch(one.kind, one.length - earlier)

    def _take(self, part: Part) -> None:
        match part:
            case CallBegan():
                self._open.append(CallPiece(self._whole, name=part.name))
            case CallArguments():
                self._open.append(CallPiece(self._whole, arguments=part.text))
            case CallEnded():
                self._calls += [*self._open, CallPiece(self._whole, ended=True)]
                self._open = []
                self._whole += 1
            case CallBroken():
                self._open = []
        if self._certain:
            self._calls += self._open
            self._open = []
