"""The text of a reply, told apart into content, reasoning and calls, and cut where the client asked
for that. Knows no events."""

from collections.abc import Iterator, Sequence

from engine.replies.parser import ReplyParser
from engine.replies.parts import ContentPart, Part
from engine.replies.syntax import ReplySyntax
from engine.replies.tools import Tool
from engine.text import StopStrings

NO_SYNTAX = ReplySyntax()


def stops_in_content(syntax: ReplySyntax) -> bool:
    """Whether stop strings are looked for here, in the content. A model that reasons may write them
    in its reasoning; the others are stopped by the engine, which writes nothing in vain then."""
    return syntax.reasoning is not None or syntax.family == "harmony"


class ReplyReader:
    """Takes the text of one reply as it comes. Attribute: `stop`, the stop string that has ended
    the content, or empty; nothing is told behind it."""

    def __init__(
        self,
        syntax: ReplySyntax = NO_SYNTAX,
        *,
        tools: Sequence[Tool] = (),
        prompt_ending: str = "",
        stops: Sequence[str] = (),
    ) -> None:
        """`stops` are those that are looked for in the content."""
        inside = syntax.begins_inside(prompt_ending)
        self._parser = ReplyParser(syntax, tools=tools, inside_reasoning=inside)
        self._stops = stops
        self._content = StopStrings(stops)
        self.stop = ""

    @property
    def ending(self) -> str:
        """Why the reply ended, where neither its length nor the client ended it."""
        return self._parser.ending

    def push(self, text: str) -> list[Part]:
        """The parts that are certain with this text."""
        return list(self._cut(self._parser.push(text)))

    def finish(self) -> list[Part]:
        """The parts that were held back, as no more text will come."""
        parts = list(self._cut(self._parser.finish()))
        if not self.stop:
            parts += self._told(self._content.finish())
        return parts

    def _cut(self, parts: list[Part]) -> Iterator[Part]:
        for part in parts:
            if self.stop:
                return
            if isinstance(part, ContentPart):
                yield from self._told(self._content.push(part.text)[0])
            else:
                yield part

    def _told(self, text: str) -> Iterator[Part]:
        if self._content.stopped:
            cut = self._content.cut
            self.stop = next(stop for stop in self._stops if cut.startswith(stop))
        if text:
            yield ContentPart(text)
