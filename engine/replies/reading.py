"""Reads a reply as stretches of its text: `engine.stretches`. Calls stay content."""

from collections.abc import Iterator

from engine.replies.parser import ReplyParser
from engine.replies.syntax import ReplySyntax
from engine.stretches import Stretch


class ReplyReader:
    """Reads one reply while it is written. The stretches of all pushes and of `finish` together are
    those of the whole text, however it was cut.

    `prompt_ending`: the last characters of the prompt, which show whether the reply begins within
    reasoning. `written`: the beginning of the reply, if this text continues it.
    """

    def __init__(self, syntax: ReplySyntax, *, prompt_ending: str = "", written: str = "") -> None:
        self._parser = ReplyParser(syntax, inside_reasoning=syntax.begins_inside(prompt_ending))
        self._earlier = len(written)  # characters of the beginning whose kind was not certain
        self.push(written)

    def push(self, text: str) -> list[Stretch]:
        """Add text; return the stretches that are certain now."""
        self._parser.push(text)
        return list(self._new())

    def finish(self) -> list[Stretch]:
        """End the reply; return the stretches of the text that was held back."""
        self._parser.finish()
        return list(self._new())

    def _new(self) -> Iterator[Stretch]:
        for one in self._parser.stretches():
            earlier = min(self._earlier, one.length)
            self._earlier -= earlier
            if one.length > earlier:
                yield Stretch(one.kind, one.length - earlier)
