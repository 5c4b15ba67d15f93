"""Splits the text of a reply into content, reasoning and calls, and cuts it at the client's stop
strings. Knows no events."""

from collections.abc import Iterator, Sequence

from engine.conversation.text import StopStrings
from engine.replies.parser import ReplyParser
from engine.replies.parts import ContentPart, Part
from engine.replies.syntax import ReplySyntax
from engine.replies.tools import Tool

NO_SYNTAX = ReplySyntax()


def stops_in_content(syntax: ReplySyntax) -> bool:
    """Whether stop strings are looked for here, in the content: a model that reasons may write them
    in its reasoning. Otherwise the engine looks for them, and stops at once."""
    return syntax.reasoning is not None or syntax.family == "harmony"


class ReplyReader:
    """Reads the text of one reply while it arrives.

    Attribute: `stop`, the stop string that ended the content, or ""; no parts follow behind it.
    """

    def __init__(
        self,
        syntax: ReplySyntax = NO_SYNTAX,
        *,
        tools: Sequence[Tool] = (),
        prompt_ending: str = "",
        stops: Sequence[str] = (),
    ) -> None:
        """`stops`: the stop strings to look for in the content."""
        inside = syntax.begins_inside(prompt_ending)
        self._parser = ReplyParser(syntax, tools=tools, inside_reasoning=inside)
        self._stops = stops
        self._content = StopStrings(stops)
        self.stop = ""

    @property
    def ending(self) -> str:
        """The reason for the end, if neither the length nor the client ended the reply."""
        return self._parser.ending

    def push(self, text: str) -> list[Part]:
        """Add text; return the parts that are certain now."""
        return list(self._cut(self._parser.push(text)))

    def finish(self) -> list[Part]:
        """End the reply; return the parts that were held back."""
        parts = list(self._cut(self._parser.finish()))
        if not self.stop:
            parts += self._up_to_stop(self._content.finish())
        return parts

    def _cut(self, parts: list[Part]) -> Iterator[Part]:
        for part in parts:
            if self.stop:
                return
            if isinstance(part, ContentPart):
                yield from self._up_to_stop(self._content.push(part.text)[0])
            else:
                yield part

    def _up_to_stop(self, text: str) -> Iterator[Part]:
        if self._content.stopped:
            cut = self._content.cut
            self.stop = next(stop for stop in self._stops if cut.startswith(stop))
        if text:
            yield ContentPart(text)
