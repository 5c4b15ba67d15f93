"""The calls of a reply as they are read: numbered, and whole before they can be understood."""

from collections.abc import Callable, Sequence

from engine.replies.incoming import Incoming
from engine.replies.parts import CallArguments, CallBegan, CallBroken, CallEnded, Part
from engine.replies.tools import Tool, named


class Calls:
    """Where a reader of calls says what it reads. `tools` are those that may be called.

    Attribute: `whole`, how many calls have ended.
    """

    def __init__(
        self, incoming: Incoming, emit: Callable[[Part], None], tools: Sequence[Tool]
    ) -> None:
        self._incoming, self._emit, self._tools = incoming, emit, tools
        self._next = 0
        self._open = False
        self._held = ""
        self.whole = 0

    def tool(self, name: str) -> Tool:
        return named(self._tools, name)

    def knows(self, name: str) -> bool:
        return any(tool.name == name for tool in self._tools)

    def begin(self, name: str) -> None:
        self._open = True
        self._emit(CallBegan(self._next, name))

    def arguments(self, text: str) -> None:
        """More of the arguments. Their last character waits for the end of the call."""
        text = self._held + text
        self._held = text[-1:]
        if text[:-1]:
            self._emit(CallArguments(self._next, text[:-1]))

    def end(self) -> None:
        self._emit(CallArguments(self._next, self._held))
        self._emit(CallEnded(self._next))
        self._close()
        self.whole += 1
        self._incoming.remember()  # what follows is no part of this call

    def give_up(self) -> None:
        """The call that is being read is none."""
        if self._open:
            self._emit(CallBroken(self._next))
            self._close()

    def _close(self) -> None:
        self._open, self._held = False, ""
        self._next += 1
