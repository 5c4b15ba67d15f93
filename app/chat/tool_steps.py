"""The calls of answers: judged, run, and given back to the model, step by step.

The rules are `engine.tools.turn`'s. Knows a runner of tools; no store, no engine and no widget.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.chat.tool_runner import ToolRunner
from app.conversations.answer_steps import stopped
from app.engine_client.token_counter import Count, load_count
from app.steps import Stepper, Steps, in_thread
from engine.events import CallPiece, Text
from engine.tools.protocol import Call, Progress, Result
from engine.tools.steps import Step, StepCall
from engine.tools.turn import (
    Decision,
    GivenTool,
    Permissions,
    asked_calls,
    decided,
    finished,
    given_tools,
    judged,
    seconds_left,
    unfit,
)
from models.errors import Problem

_CHARACTERS_IN_A_TOKEN = 3  # of most texts, at least
_GONE = "This tool was switched off meanwhile, or its server has ended. Go on without it."


class Calling:
    """How far an answer is with its calls.

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
    def asked(self) -> tuple[StepCall, ...]:
        """The calls on which a person decides."""
        return self._last("asked")

    @property
    def running(self) -> tuple[StepCall, ...]:
        """The calls that run, or are about to."""
        return self._last("running")

    def call(self, id: str) -> StepCall | None:
        """Return the call with this id, of the last step."""
        return next((call for call in self._calls if call.id == id), None)

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
        """Judge the calls again that wait for a person, if the answer ends with them at this place.
        Returns whether there are any."""
        waits = bool(self.asked) and self.steps[-1].place == place
        if waits:
            *before, last = self.steps
            self.steps = tuple(before)
            self._judge(last.calls, place)
        return waits

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
        asked = [call for call in calls if call.state == "asked"]
        new = judged(asked, self.tools, self.permissions, before=self.steps)
        by_id = {call.id: call for call in new}
        kept = tuple(by_id.get(call.id, call) for call in calls)
        self.steps = (*self.steps, Step(place, kept))

    def _last(self, state: str) -> tuple[StepCall, ...]:
        return tuple(call for call in self._calls if call.state == state)

    @property
    def _calls(self) -> tuple[StepCall, ...]:
        return self.steps[-1].calls if self.steps else ()


class ToolSteps(QObject):
    """Runs the calls of all answers.

    Signals:
        changed(Calling): a call began or ended; store that, then call `go_on`.
        progressed(Calling): a call goes on.
        permitted(Calling): a person decided on a tool for all of the conversation.
        done(Calling): no call waits or runs any more.
    """

    changed = Signal(Calling)
    progressed = Signal(Calling)
    permitted = Signal(Calling)
    done = Signal(Calling)

    def __init__(
        self, runner: ToolRunner, *, target: Callable[[], Path | None], parent: QObject
    ) -> None:
        """`target` returns the folder of the loaded model, whose tokens count."""
        super().__init__(parent)
        self._runner, self._target = runner, target
        self._stepper = Stepper(self)
        self._open: dict[str, Calling] = {}  # by the ids of calls that were given to the runner
        runner.progressed.connect(self._on_progressed)
        runner.ended.connect(self._on_ended)

    def calling(self, permissions: Permissions, *, question: str, steps: Sequence[Step]) -> Calling:
        """Return the beginning of an answer, with the tools that are switched on now and allowed in
        its conversation."""
        return Calling(
            steps=steps,
            tools=self.allowed(permissions),
            permissions=replace(permissions, trusted=self._runner.trusted()),
            question=question,
        )

    def allowed(self, permissions: Permissions) -> tuple[GivenTool, ...]:
        """Return the tools that are switched on, without those that are never allowed here."""
        tools = self._runner.offered()
        return given_tools(one for one in tools if (one.server, one.name) not in permissions.never)

    def go_on(self, calling: Calling) -> None:
        """Run the calls that may run; `done` is sent if no call waits."""
        there = {(tool.server, tool.name) for tool in self._runner.offered()}
        waiting = [call for call in calling.running if call.id not in self._open]
        if gone := [call for call in waiting if (call.server, call.tool) not in there]:
            calling.put(*(replace(call, state="failed", result=_GONE) for call in gone))
            self.changed.emit(calling)
            return
        for call in waiting:
            self._open[call.id] = calling
            arguments, seconds = call.ran or call.arguments, seconds_left(calling.steps)
            self._runner.call(Call(call.id, call.server, call.tool, arguments, seconds))
        if not calling.asked and not calling.running:
            self.done.emit(calling)

    def decide(self, calling: Calling, id: str, decision: Decision, arguments: str = "") -> None:
        """Take a person's decision on a call that waits for it, and on others of that tool if it is
        about all of them. `arguments` are those to run with, as the person left them."""
        call = calling.call(id)
        if call is None or call.state != "asked":
            return
        calling.put(decided(call, decision, arguments=arguments))
        if decision in ("always", "never"):
            calling.permissions = calling.permissions.after(call, decision)
            alike = [
                one for one in calling.asked if (one.server, one.tool) == (call.server, call.tool)
            ]
            calling.put(*(decided(one, decision) for one in alike))
            self.permitted.emit(calling)
        self.changed.emit(calling)

    def stop(self, calling: Calling) -> None:
        """Stop the calls of an answer that ends."""
        for call in calling.running:
            if self._open.pop(call.id, None) is not None:
                self._runner.cancel(call.id)
        calling.stop()

    def close(self) -> None:
        """Expect nothing more of the runner."""
        self._stepper.close()
        self._open.clear()

    def _on_progressed(self, progress: Progress) -> None:
        if (calling := self._open.get(progress.id)) is not None:
            calling.progress[progress.id] = progress
            self.progressed.emit(calling)

    def _on_ended(self, result: Result) -> None:
        calling = self._open.get(result.id)
        call = None if calling is None else calling.call(result.id)
        if calling is not None and call is not None:
            self._stepper.run(self._finish(calling, call, result), failed=lambda problem: None)

    def _finish(self, calling: Calling, call: StepCall, result: Result) -> Steps:
        """Take the result of a call. A long one is read in a thread."""
        target, question = self._target(), calling.question
        ended = yield in_thread(
            lambda: finished(call, result, question=question, count=_counting(target))
        )
        if self._open.pop(call.id, None) is not None:  # otherwise it was stopped meanwhile
            calling.put(ended)
            self.changed.emit(calling)


def _counting(target: Path | None) -> Count:
    """Return a function that counts tokens, which reads the model's tokenizer if it is needed."""
    known: list[Count] = []

    def count(text: str) -> int:
        if not known:
            try:
                known.append(load_count(target) if target else _estimate)
            except Problem:
                known.append(_estimate)
        return known[0](text)

    return count


def _estimate(text: str) -> int:
    return len(text) // _CHARACTERS_IN_A_TOKEN + 1
