"""Without a process nothing is offered, and a call fails in its turn."""

from app.chat.tool_runner import ToolRunner
from engine.tools.protocol import Call


def test_without_a_process_each_call_fails(qtbot):
    runner = ToolRunner()
    assert runner.offered() == ()
    with qtbot.waitSignal(runner.ended) as ended:
        runner.call(Call("1", "files", "read", "{}"))
        assert not ended.signal_triggered
    assert (ended.args[0].id, ended.args[0].ending) == ("1", "failed")
