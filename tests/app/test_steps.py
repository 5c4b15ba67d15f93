"""Steps wait without waiting, in one thread, and their problems are told."""

import ast
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest
from shiboken6 import delete

import app
from app.steps import Stepper, in_thread
from models.errors import Problem


def fail(problem):
    raise AssertionError(problem)


def test_steps_go_on_where_they_began(qtbot):
    stepper, seen = Stepper(), []
    done = Future()
    done.set_result(5)

    def steps():
        seen.append((yield done))
        seen.append((yield in_thread(threading.current_thread)))
        seen.append(threading.current_thread())

    stepper.run(steps(), failed=fail)
    assert seen == [], "never inside the call, though it is done already"
    qtbot.waitUntil(lambda: len(seen) == 3)
    assert seen[0] == 5
    assert seen[2] is threading.main_thread() is not seen[1]


def test_a_problem_can_be_caught_or_is_told_and_a_bug_surfaces(qtbot):
    stepper, told, caught = Stepper(), [], []

    def work():
        raise Problem("Broken.", "Mend it.")

    def steps():
        try:
            yield in_thread(work)
        except Problem as problem:
            caught.append(problem.message)
        yield in_thread(work)
        caught.append("never")

    def broken():
        raise Problem("Broken.", "Mend it now.")
        yield  # a generator

    stepper.run(broken(), failed=lambda problem: told.append(problem.remedy))
    assert told == ["Mend it now."], "before the first wait too"
    stepper.run(steps(), failed=lambda problem: told.append(problem.remedy))
    qtbot.waitUntil(lambda: told[1:] == ["Mend it."])
    assert caught == ["Broken."]

    def bug():
        yield in_thread(lambda: 1 // 0)

    with qtbot.captureExceptions() as surfaced:
        stepper.run(bug(), failed=fail)
        qtbot.waitUntil(lambda: len(surfaced) == 1)
    assert surfaced[0][0] is ZeroDivisionError


@pytest.mark.parametrize("end", [Stepper.close, delete], ids=["closed", "deleted"])
def test_what_comes_after_the_end_is_dropped_and_nothing_more_is_asked_for(qtbot, caplog, end):
    # A list that was being read when the window closed asked a store that was closed.
    stepper, seen = Stepper(), []
    late = Future()

    def steps():
        try:
            yield late
            seen.append("asked")
        finally:
            seen.append("closed")
            if end is Stepper.close:
                stepper.run(steps(), failed=fail)  # as one that refreshes in any case

    stepper.run(steps(), failed=fail)
    end(stepper)
    before = [*seen]
    late.set_result(5)
    qtbot.wait(10)
    assert before == seen == (["closed"] if end is Stepper.close else [])
    assert caplog.text == "", "no future has an error that did not occur"


def test_a_future_that_ends_while_a_stepper_goes_reports_nothing():
    # A thread that reported to a window which was being deleted ended the process with a fault.
    def steps():
        yield late

    for _ in range(200):
        late = Future()
        stepper = Stepper()
        stepper.run(steps(), failed=fail)
        thread = threading.Thread(target=late.set_result, args=(5,))
        thread.start()
        stepper.close()
        delete(stepper)
        thread.join()


SHOWN = {
    "record", "branch", "shown", "configured", "settings", "permissions", "beginning", "message",
    "place", "queued", "on_its_way", "sending", "busy", "writing", "asked_by",
}  # fmt: skip
BEGINS = "sidebar/controller.py: begin_in_folder"  # how any new conversation begins


def reads_of_what_is_shown(steps, owner):
    """What steps read of the open conversation after they waited, unless they ask `is_here`."""
    nodes = list(ast.walk(steps))
    waits = [node.lineno for node in nodes if isinstance(node, ast.Yield | ast.YieldFrom)]
    ifs = (each for each in nodes if isinstance(each, ast.If) and "is_here" in ast.dump(each.test))
    asked = [inner for each in ifs for inner in ast.walk(each)]
    return [
        ast.unparse(node)
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node not in asked
        if node.attr in SHOWN and ast.unparse(node.value) == owner and node.lineno > min(waits)
    ]


def test_steps_read_nothing_that_is_shown_after_they_waited():
    found, count = set(), 0
    for path in Path(app.__path__[0]).rglob("*.py"):
        owner = "self" if path.match("chat/conversation.py") else "self._conversation"
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text if "yield" in text else "")):
            returns = ast.unparse(getattr(node, "returns", None) or ast.Pass())
            if returns.startswith(("Steps", "Generator")) and "yield" in ast.unparse(node):
                count += 1
                if reads_of_what_is_shown(node, owner):
                    found.add(f"{path.parent.name}/{path.name}: {node.name}")
    assert count > 50
    assert found == {BEGINS}
