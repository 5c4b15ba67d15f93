"""Runs the calls of answers. Knows a runner of tools; no store, no engine and no widget."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.chat.tool_runner import ToolRunner
from app.engine_client.token_counter import Count, estimate, load_count
from app.steps import Stepper, Steps, in_thread
from engine.tools.calling import Calling
from engine.tools.protocol import Call, Progress, Result
from engine.tools.steps import Step, StepCall
from engine.tools.turn import (
    Decision,
    GivenTool,
    Permissions,
    finished,
    given_tools,
    seconds_left,
)
from models.errors import Problem

_GONE = "This tool was switched off meanwhile, or its server has ended. Go on without it."


class ToolSteps(QObject):
    """Runs the calls of all answers.

    Signals:
        changed(Calling): a call began or ended; store that, then call `go_on`.
        progressed(Calling): a call goes on.
        permitted(Calling): the user decided on a tool for all of the conversation.
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
        """Return the tools that are switched on, except tools that are never allowed here."""
        tools = self._runner.offered()
        return given_tools(
            tool for tool in tools if (tool.server, tool.name) not in permissions.never
        )

    def go_on(self, calling: Calling) -> None:
        """Run the calls that may run; `done` is sent if no call waits."""
        offered = {(tool.server, tool.name) for tool in self._runner.offered()}
        waiting = [call for call in calling.running if call.id not in self._open]
        if gone := [call for call in waiting if (call.server, call.tool) not in offered]:
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
        """Take the user's decision on a call that waits for it: see `Calling.decide`."""
        call, before = calling.call(id), calling.permissions
        if call is None or call.state != "asked":
            return
        calling.decide(call, decision, arguments)
        if calling.permissions != before:
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
                known.append(load_count(target) if target else estimate)
            except Problem:
                known.append(estimate)
        return known[0](text)

    return count
