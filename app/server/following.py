"""What the engine does for each request of the local server, from the events that pass the window.

Knows events; no Qt, and nothing of HTTP.
"""

from dataclasses import dataclass, field, replace

from app.chat.activity import Activity, AwaitingTurn, BeingWritten, progress
from engine.conversation.rounds import Round, Rounds
from engine.events import Done, Draft, Event, Failed, Prefill, Text, Verdict, Waiting


@dataclass(frozen=True, slots=True)
class GenerationNow:
    """The state of a generation. `round`: the newest one, drafted or judged."""

    activity: Activity = field(default_factory=AwaitingTurn)
    tokens: int = 0
    seconds: float = 0.0
    round: Round | None = None

    @property
    def tokens_per_second(self) -> float | None:
        """Over the whole answer so far; None before the first token."""
        return self.tokens / self.seconds if self.seconds > 0.0 else None


class Following:
    """Attributes: `now`, the generations that are not over, by their ids."""

    def __init__(self) -> None:
        self.now: dict[str, GenerationNow] = {}
        self._joined: dict[str, Rounds] = {}

    def begin(self, generation: str) -> None:
        """Follow this one."""
        self.now[generation] = GenerationNow()
        self._joined[generation] = Rounds()

    def push(self, event: Event) -> None:
        """Take an event of one that was begun."""
        id = event.generation
        if (now := self.now.get(id)) is None:
            return
        match event:
            case Waiting():
                now = replace(now, activity=AwaitingTurn(event.ahead))
            case Prefill():
                now = replace(now, activity=progress(event))
            case Draft() | Verdict() | Text():
                now = replace(now, activity=BeingWritten())
            case Done() | Failed():
                del self.now[id], self._joined[id]
                return
        happening = self._joined[id].push(event)
        if isinstance(happening, Round):
            now = replace(now, round=happening)
            if happening.verdict is not None:
                now = replace(
                    now,
                    tokens=now.tokens + len(happening.committed),
                    seconds=now.seconds + happening.verdict.seconds,
                )
        self.now[id] = now

    def clear(self) -> None:
        """All of them are over."""
        self.now.clear()
        self._joined.clear()
