"""Collects the calls of a reply: numbers them, and holds each one's last character to its end."""

from collections.abc import Callable, Sequence

from engine.replies.incoming import Incoming
from engine.replies.parts import CallArguments, CallBegan, CallBroken, CallEnded, Part
from engine.replies.tools import Tool, named


class Calls:
    """Turns what a reader of calls reads into parts. `tools`: those that may be called.

    Attributes: `whole`, the number of calls that have ended; `begun`, whether a call is under way.
    """

    def __init__(
        self, incoming: Incoming, emit: Callable[[Part], None], tools: Sequence[Tool]
    ) -> None:
        self._incoming, self._emit, self._tools = incoming, emit, tools
        self._next = 0
        self.begun = False
        self._held = ""
        self.whole = 0

    def tool(self, name: str) -> Tool:
        return named(self._tools, name)

    def knows(self, name: str) -> bool:
        return any(tool.name == name for tool in self._tools)

    def begin(self, name: str) -> None:
        self.begun = True
        self._emit(CallBegan(self._next, name))

    def arguments(self, text: str) -> None:
        """Add to the arguments. Their last character is held back until the end of the call."""
        text = self._held + text
        self._held = text[-1:]
        if text[:-1]:
            self._emit(CallArguments(self._next, text[:-1]))

    def end(self) -> None:
        self._emit(CallArguments(self._next, self._held))
        self._emit(CallEnded(self._next))
        self._close()
        self.whole += 1
        self._incoming.remember()  # the text that follows is no part of this call

    def give_up(self) -> None:
        """Discard the call in progress: the text was not a call."""
        if self.begun:
            self._emit(CallBroken(self._next))
            self._close()

    def _close(self) -> None:
        self.begun, self._held = False, ""
        self._next += 1
