"""The calls of an answer, from step to step, by the rules of `engine.tools.turn`.

Pure: the window and the terminal run the calls, and ask the user.
"""

from collections.abc import Sequence
from dataclasses import replace

from engine.events import CallPiece, Text
from engine.tools.protocol import Progress
from engine.tools.steps import Step, StepCall, runs_before, stopped
from engine.tools.turn import (
    Decision,
    GivenTool,
    Permissions,
    asked_calls,
    decided,
    judged,
    unfit,
)


class Calling:
    """How far an answer is with its calls. The `running` ones are to be run, the user decides
    on the `asked` ones, and all others have ended.

    Attributes: `steps`, those so far; `tools`, which the model is offered; `permissions`, of its
    conversation; `question`, for which passages of long results are chosen; `progress`, of the
    calls that run, by their ids.
    """

    def __init__(
        self,
        *,
        steps: Sequence[Step] = (),
        tools: Sequence[GivenTool] = (),
        permissions: Permissions | None = None,
        question: str = "",
    ) -> None:
        self.steps, self.tools = tuple(steps), tuple(tools)
        self.permissions, self.question = permissions or Permissions(), question
        self.progress: dict[str, Progress] = {}
        self._pieces: list[CallPiece] = []  # of the step that is being written

    @property
    def last(self) -> tuple[StepCall, ...]:
        """The calls of the last step."""
        return self.steps[-1].calls if self.steps else ()

    @property
    def asked(self) -> tuple[StepCall, ...]:
        """The calls on which the user decides."""
        return self._last("asked")

    @property
    def running(self) -> tuple[StepCall, ...]:
        """The calls that run, or are about to."""
        return self._last("running")

    def call(self, id: str) -> StepCall | None:
        """Return the call with this id, of the last step."""
        return next((call for call in self.last if call.id == id), None)

    def repeats(self, call: StepCall) -> bool:
        """Return whether this call of the last step ran before."""
        return bool(runs_before(call, self.steps[:-1]))

    def fault(self, call: StepCall, arguments: str) -> str:
        """Return why a call cannot run with these arguments; empty if it can."""
        tool = next((tool for tool in self.tools if tool.name == call.name), None)
        return "the tool is no longer there" if tool is None else unfit(arguments, tool)

    def hear(self, text: Text) -> None:
        """Add what a text says of calls."""
        if self.tools:
            self._pieces += text.calls

    def begin_step(self, generation: str, *, place: int) -> bool:
        """Judge the calls that a generation wrote up to this place of the text. Returns whether
        there are any."""
        calls, self._pieces = asked_calls(self._pieces, id=generation), []
        if calls:
            self._judge(calls, place)
        return bool(calls)

    def take_up(self, place: int) -> bool:
        """Judge the calls again that wait for the user, if the answer ends with them at this place.
        Returns whether there are any."""
        waits = bool(self.asked) and self.steps[-1].place == place
        if waits:
            *before, last = self.steps
            self.steps = tuple(before)
            self._judge(last.calls, place)
        return waits

    def decide(self, call: StepCall, decision: Decision, arguments: str = "") -> None:
        """Take the user's decision on a call, and on the others of its tool if it is about all of
        them. `arguments` are those to run with, as the user left them."""
        self.put(decided(call, decision, arguments=arguments))
        self.permissions = self.permissions.after(call, decision)
        if decision in ("always", "never"):
            self.put(*(decided(one, decision) for one in self.asked if one.key == call.key))

    def put(self, *calls: StepCall) -> None:
        """Put these calls in the place of those with their ids."""
        by_id = {call.id: call for call in calls}
        *before, last = self.steps
        kept = tuple(by_id.get(call.id, call) for call in last.calls)
        self.steps = (*before, replace(last, calls=kept))

    def stop(self) -> None:
        """Let no call run any more."""
        self.steps = stopped(self.steps)

    def _judge(self, calls: Sequence[StepCall], place: int) -> None:
        before = self.steps
        self.steps = (*before, Step(place, tuple(calls)))
        self.put(*judged(self.asked, self.tools, self.permissions, before=before))

    def _last(self, state: str) -> tuple[StepCall, ...]:
        return tuple(call for call in self.last if call.state == state)
