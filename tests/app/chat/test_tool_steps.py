"""Answers that call tools: the user decides, the tool runs, and the model goes on; the card
that asks about a call, and the button that says which tools are asked about."""

import json
from dataclasses import replace
from functools import partial

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QWidget

from app.chat.activity import AwaitingPerson, RunningTool
from app.chat.approval_card import Approval, ApprovalCard, in_tab_order
from app.chat.menu_buttons import ToolsButton
from app.chat.tool_runner import ToolRunner
from app.rounds.trace import Trace
from engine.events import Done, Draft, Verdict
from engine.stretches import said
from engine.tools.protocol import Call
from engine.tools.steps import StepCall
from engine.tools.turn import Permissions
from tests.support.app.fake_tools import ADD, READ, WRITE, FakeTools, called
from tests.support.app.made_traces import made_trace
from tests.support.app.talk import Talk, refuse
from tests.support.app.window_maker import events_file

NOTES = ("read_file", '{"path": "notes.md"}')
SUM = ("add", '{"a": 1, "b": 2}')
LAST = "The notes say that all is well."


class Steps:
    """A talk whose answers have these steps; of each the file that the fake host plays."""

    def __init__(self, begin, watch, folder, *steps, rest="serve"):
        files = (events_file(folder, step, name=f"{n}.jsonl") for n, step in enumerate(steps))
        played = " ".join(f"take play:{file}" for file in files)
        self.tools = FakeTools(READ, WRITE, ADD)
        self.talk = begin(f"ready take load {played} {rest}", self.tools)
        self.asked = watch(self.talk.engine)

    @property
    def writing(self):
        return self.talk.conversation.writing

    def stored(self):
        """All calls of the answer."""
        answer = self.talk.store.message(self.talk.conversation.branch[-1].id).result()
        return [call for step in answer.steps for call in step.calls]

    def until_asked(self, tool):
        self.talk.until(
            lambda: self.talk.conversation.writing and self.writing.calling.asked[:1]
            and self.writing.calling.asked[0].name == tool
        )  # fmt: skip
        return self.writing.calling.asked[0]

    def until_run(self, count):
        self.talk.until(lambda: len(self.tools.calls) >= count)

    def decide(self, call, decision, arguments=""):
        self.talk.answers.decide(self.writing.message.id, call.id, decision, arguments)

    def until_first_runs(self):
        """Ask, and let the model read the notes; returns its call, which runs then."""
        self.talk.conversation.say("go")
        call = self.until_asked("read_file")
        self.decide(call, "once")
        self.until_run(1)
        return call


@pytest.fixture
def play(begin, watch, tmp_path):
    """Begins a talk whose answers have these steps."""
    return partial(Steps, begin, watch, tmp_path)


def test_an_answer_goes_on_from_the_results_of_its_calls(play):
    steps = play(
        called("I look.", NOTES, thought="Notes?"), called("", SUM, NOTES), made_trace(LAST)
    )
    talk = steps.talk
    talk.conversation.say("How are things?")
    call = steps.until_asked("read_file")
    assert isinstance(steps.writing.activity, AwaitingPerson)
    assert not steps.tools.calls, "nothing runs unasked"
    assert [call.state for call in steps.stored()] == ["asked"]
    steps.decide(call, "once")
    steps.until_run(1)
    assert isinstance(steps.writing.activity, RunningTool)
    assert [call.state for call in steps.stored()] == ["running"], "on the disk before it runs"
    assert (steps.tools.calls[0].tool, steps.tools.calls[0].arguments) == NOTES
    steps.tools.end("All is well.")
    steps.decide(steps.until_asked("add"), "once")
    steps.decide(steps.until_asked("read_file"), "refuse")
    steps.until_run(2)
    steps.tools.end("3")
    talk.until_told("saved")
    (answer,) = [m for m in talk.conversation.branch if m.role == "assistant"]
    assert answer.state == "complete"
    assert said(answer.content, answer.stretches) == f"I look.\n\n{LAST}"
    states = [(call.name, call.state, call.bytes) for call in steps.stored()]
    assert states == [("read_file", "done", 12), ("add", "done", 1), ("read_file", "refused", 0)]
    # Each step was asked for with all before it, word for word, and with the same tools.
    first, second, third = (one.lines for one in steps.asked)
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    assert [one.role for one in third[len(first) :]] == ["assistant", "tool"] * 2 + ["tool"]
    assert third[-2].content == "3"
    (tools,) = {one.tools for one in steps.asked}
    offered = [tool["function"]["name"] for tool in json.loads(tools)]
    assert offered == ["read_file", "write_file", "add"]
    # One trace, whose rounds are numbered on.
    events = talk.store.trace(answer.id).result()
    rounds = [event.round for event in events if isinstance(event, Draft | Verdict)]
    assert rounds == sorted(rounds)
    assert "".join(p.text for p in Trace(events).pieces if p.written) == answer.content
    assert sum(isinstance(event, Done) for event in events) == 3
    # The next question comes after all of it.
    talk.ask("Sure?")
    assert steps.asked[3].lines[: len(third)] == third
    assert len(steps.asked[3].lines) == len(third) + 2


def test_always_and_never_hold_for_the_conversation(play, tmp_path):
    write = ("write_file", "{}")
    steps = play(
        called("", NOTES, NOTES, write, write),
        called("", NOTES),
        made_trace(LAST),
        called("", NOTES),
        rest="take play:" + str(events_file(tmp_path, made_trace("."), name="last.jsonl")),
    )
    talk = steps.talk
    talk.conversation.say("go")
    steps.decide(steps.until_asked("read_file"), "always")
    steps.until_run(2)
    assert [call.state for call in steps.stored()] == ["running", "running", "asked", "asked"]
    steps.decide(steps.until_asked("write_file"), "never")
    steps.tools.end("one", call=0)
    steps.tools.end("two", call=1)
    steps.until_run(3)
    steps.tools.end("three")
    talk.until_told("saved")
    assert [call.state for call in steps.stored()] == ["done"] * 2 + ["refused"] * 2 + ["done"]
    record = talk.store.conversation(talk.conversation.branch[0].conversation).result()
    assert record.permissions == talk.conversation.permissions
    assert record.permissions.always == {("files", "read_file")}
    talk.conversation.say("again")
    steps.until_run(4)
    steps.tools.end("four")
    talk.until_told("saved", 2)
    offered = [tool["function"]["name"] for tool in json.loads(steps.asked[-1].tools)]
    assert offered == ["read_file", "add"]
    talk.conversation.permit(Permissions())
    talk.until(lambda: not talk.conversation.permissions.always)
    assert talk.store.conversation(record.id).result().permissions == Permissions()


def test_arguments_can_be_changed_and_a_tool_that_was_switched_off_meanwhile_does_not_run(play):
    steps = play(called("", NOTES, SUM, NOTES), made_trace(LAST))
    steps.talk.conversation.say("go")
    call = steps.until_asked("read_file")
    assert not steps.writing.calling.fault(call, '{"path": "other.md"}')
    assert steps.writing.calling.fault(call, '{"path": 3}')
    steps.decide(call, "once", '{"path": "other.md"}')
    steps.until_run(1)
    assert steps.tools.calls[0].arguments == '{"path": "other.md"}'
    steps.tools.tools = (ADD,)
    steps.decide(steps.until_asked("add"), "once")
    steps.decide(steps.until_asked("read_file"), "once")
    steps.until_run(2)
    steps.tools.end("Other.", call=0)
    steps.tools.end("3", call=1)
    steps.talk.until_told("saved")
    assert [call.tool for call in steps.tools.calls] == ["read_file", "add"]
    assert [call.state for call in steps.stored()] == ["done", "done", "failed"]
    kept = steps.stored()[0]
    assert (kept.arguments, kept.ran) == (NOTES[1], '{"path": "other.md"}')
    assert "other.md" in kept.result


def test_wrong_calls_are_given_back_to_the_model(play):
    wrong = (("delete_all", "{}"), ("read_file", '{"path": 7}'))
    steps = play(called("", *wrong), called("", *wrong[1:]), made_trace(LAST))
    steps.talk.ask("go")
    assert not steps.tools.calls
    assert [call.state for call in steps.stored()] == ["refused"] * 3
    assert all(call.result for call in steps.stored())
    may_call = [one.request.may_call for one in steps.asked]
    assert may_call == [True, True, False], "after two steps that ran nothing it is to answer"


@pytest.mark.parametrize("running", [False, True])
def test_stop_stops_the_tool_too_and_the_answer_can_be_gone_on_with(play, running):
    steps = play(called("I look.", NOTES), made_trace(LAST))
    talk = steps.talk
    talk.conversation.say("go")
    call = steps.until_asked("read_file")
    if running:
        steps.decide(call, "once")
        steps.until_run(1)
    talk.conversation.stop()
    talk.until_told("saved")
    answer = talk.conversation.branch[-1]
    assert answer.state == "cancelled"
    assert [call.state for call in steps.stored()] == ["cancelled" if running else "asked"]
    assert steps.tools.cancelled == ([call.id] if running else [])
    if running:
        steps.tools.end("too late", ending="cancelled")
        assert [call.state for call in steps.stored()] == ["cancelled"]
    talk.conversation.go_on(answer.id)
    if not running:
        steps.decide(steps.until_asked("read_file"), "once")
        steps.until_run(1)
        steps.tools.end("All is well.")
    talk.until_told("saved", 2)
    gone_on = talk.conversation.branch[-1]
    assert gone_on.siblings == 2
    assert gone_on.content == answer.content + LAST
    assert [call.state for call in steps.stored()] == ["cancelled" if running else "done"]
    assert steps.asked[-1].lines[-1].role == "tool"


def test_an_engine_that_dies_in_the_second_step_loses_nothing(play, tmp_path):
    half = events_file(tmp_path, made_trace(LAST), name="half.jsonl")
    rest = events_file(tmp_path, made_trace(" And so on."), name="rest.jsonl")
    steps = play(
        called("", NOTES),
        rest=f"take part:9:{half} kill -- ready take load take play:{rest} serve",
    )
    talk = steps.talk
    steps.until_first_runs()
    steps.tools.end("All is well.")
    talk.until_told("saved")
    answer = talk.conversation.branch[-1]
    assert answer.state == "failed"
    assert [call.state for call in steps.stored()] == ["done"]
    talk.conversation.go_on(answer.id)
    talk.until_told("saved", 2)
    assert talk.conversation.branch[-1].content == f"{answer.content} And so on."
    assert [one.role for one in steps.asked[-1].lines] == ["user", "assistant", "tool", "assistant"]
    assert steps.asked[-1].lines[-1].written == answer.content[answer.steps[-1].place :]


@pytest.mark.parametrize("killed", [False, True])
def test_an_app_that_ends_meanwhile_keeps_the_calls(play, tmp_path, killed):
    steps = play(called("", NOTES, SUM), rest="take rest")
    talk = steps.talk
    steps.until_first_runs()
    id = steps.writing.message.id
    if killed:  # nothing more reaches the disk
        talk.store.close()
    else:
        talk.close()
    with Talk.reopened(tmp_path) as store:
        answer = store.message(id).result()
        assert answer.state == "interrupted"
        assert [call.state for call in answer.steps[0].calls] == ["cancelled", "asked"]


def test_a_trusted_server_reads_unasked_and_a_call_that_cannot_be_stored_runs_all_the_same(
    play, monkeypatch
):
    steps = play(called("", NOTES, ("write_file", "{}")), made_trace(LAST))
    talk = steps.talk
    steps.tools.believed = frozenset(("files",))
    talk.conversation.say("go")
    call = steps.until_asked("write_file")
    steps.until_run(1)
    assert [call.tool for call in steps.tools.calls] == ["read_file"]
    monkeypatch.setattr("app.conversations.traces.extend", refuse)
    steps.decide(call, "once")
    steps.until_run(2)
    talk.until(lambda: talk.problems)
    monkeypatch.undo()
    steps.tools.end("All is well.", call=0)
    steps.tools.end("Written.", call=1)
    talk.until_told("saved")
    assert [call.state for call in steps.stored()] == ["done", "done"]


def test_a_call_that_comes_after_stop_does_not_run(play, tmp_path):
    events = called("I look.", NOTES)
    half = events_file(tmp_path, events[:9], name="half.jsonl")
    rest, go = events_file(tmp_path, events[9:], name="rest.jsonl"), tmp_path / "go"
    steps = play(rest=f"take play:{half} wait:{go} play:{rest} rest")
    steps.tools.believed = frozenset(("files",))
    steps.talk.conversation.say("go")
    steps.talk.until(lambda: steps.talk.conversation.writing and steps.writing.begun)
    steps.talk.conversation.stop()
    go.touch()
    steps.talk.until_told("saved")
    assert steps.talk.conversation.branch[-1].state == "cancelled"
    assert not steps.tools.calls


def test_without_a_process_each_call_fails_in_its_turn(qtbot):
    runner = ToolRunner()
    assert runner.offered() == ()
    with qtbot.waitSignal(runner.ended) as ended:
        runner.call(Call("1", "files", "read", "{}"))
        assert not ended.signal_triggered
    assert (ended.args[0].id, ended.args[0].ending) == ("1", "failed")


CALL = StepCall("a_0", "read_file", '{"path": "notes.md"}', "files", "read_file")


APPROVAL = Approval(
    CALL,
    read_only=True,
    repeats=False,
    among=2,
    fault=lambda arguments: "" if '"path": "' in arguments else "path: it is missing",
)


@pytest.fixture
def card(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(600, 500)
    card = ApprovalCard()
    card.setParent(window)
    card.resize(500, 300)
    window.show()
    card.show()
    card.show_approval(APPROVAL)
    yield card
    window.close()


def test_each_button_decides_with_all_characters_and_none_is_hidden_or_active(card):
    decided = []
    card.decided.connect(lambda *values: decided.append(values))
    card.arguments.setPlainText('{"path": "other.md"}')
    for button in card.buttons.values():
        button.click()
    ways = ("once", "refuse", "always", "never")
    assert decided == [("a_0", way, '{"path": "other.md"}') for way in ways]
    given = {"path": "\u200f1\xa0000\u2028\U000e0067."}
    arguments = json.dumps(given, ensure_ascii=False)
    card.show_approval(replace(APPROVAL, call=replace(CALL, id="a_1", arguments=arguments)))
    assert card.arguments.toPlainText().isascii()
    card.buttons["once"].click()
    assert json.loads(decided[-1][-1]) == given
    nasty = replace(CALL, tool="<img src=x>\u202e\nread", server="<b>files</b>")
    card.show_approval(replace(APPROVAL, call=nasty))
    labels = card.findChildren(QLabel)
    assert all(label.textFormat() == Qt.TextFormat.PlainText for label in labels)
    assert not any("\u202e" in label.text() or "\n" in label.text() for label in labels)


def test_arguments_that_do_not_fit_cannot_run_and_stay_until_another_call_is_asked_about(card):
    assert card.fault.isHidden()
    card.arguments.setPlainText("{}")
    enabled = {way for way, button in card.buttons.items() if button.isEnabled()}
    assert enabled == {"refuse", "never"}
    assert "path" in card.fault.words
    card.arguments.setPlainText('{"path": "mine.md"}')
    assert all(button.isEnabled() for button in card.buttons.values())
    assert card.fault.isHidden()
    card.show_approval(replace(APPROVAL, among=1))
    assert card.arguments.toPlainText() == '{"path": "mine.md"}'
    card.show_approval(replace(APPROVAL, call=replace(CALL, id="a_1")))
    assert "notes.md" in card.arguments.toPlainText()


def test_keys_reach_all_of_it_and_return_presses_only_a_button_with_the_focus(card):
    window = card.parentWidget()
    before = QWidget(window)
    before.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    before.show()
    in_tab_order(card, before)
    decided = []
    card.decided.connect(lambda id, way, arguments: decided.append(way))
    before.setFocus()
    QTest.keyClick(before, Qt.Key.Key_Return)
    assert not decided
    reached = []
    for _ in range(5):
        QTest.keyClick(window.focusWidget(), Qt.Key.Key_Tab)
        reached.append(window.focusWidget())
    assert reached == [card.arguments, *card.buttons.values()]
    QTest.keyClick(card.buttons["never"], Qt.Key.Key_Return)
    assert decided == ["never"]
    card.show_approval(replace(APPROVAL, call=replace(CALL, id="a_1")))
    assert window.focusWidget() is not card.buttons["never"], "the next call is not decided too"


TOOLS = (READ, WRITE, ADD)


def test_tools_are_switched_off_and_asked_about_again_one_by_one_or_all(qtbot):
    button, asked = ToolsButton(), []
    qtbot.addWidget(button)
    button.permitted.connect(lambda chosen: button.show_tools(TOOLS, chosen, set_up=True))
    button.settings_asked.connect(lambda: asked.append(True))

    def action(name):
        """The entry of a fresh menu whose text begins so."""
        return next(one for one in button.choices_menu().actions() if one.text().startswith(name))

    key, never = ("files", "read_file"), Permissions(never=frozenset({("files", "read_file")}))
    button.show_tools((), Permissions(), set_up=False)
    assert button.isHidden()
    button.show_tools((), Permissions(), set_up=True)
    assert not button.isHidden(), "the way to the settings"
    button.show_tools(TOOLS, Permissions(trusted=frozenset(("files",))), set_up=True)
    texts = [action(tool.name).text() == tool.name for tool in TOOLS]
    assert texts == [False, True, True], "trusted, it reads unasked"
    action("read_file").trigger()
    assert button.permissions == never
    button.show_tools(TOOLS, Permissions(always=frozenset({key})), set_up=True)
    assert action("read_file").isChecked()
    assert action("read_file").text() != "read_file"
    action("read_file").trigger()
    assert button.permissions == never
    assert not action("read_file").isChecked()
    action("read_file").trigger()
    assert button.permissions == Permissions()
    assert action("read_file").text() == "read_file"
    assert not action("Ask before every").isEnabled()
    never = Permissions(never=frozenset({(ADD.server, ADD.name)}))
    button.show_tools(TOOLS[:2], never, set_up=True)  # the server of the third does not run
    action("Turn all off").trigger()
    assert button.permissions.never == {(tool.server, tool.name) for tool in TOOLS}
    assert not action("Turn all off").isEnabled()
    button.show_tools(TOOLS, Permissions(always=frozenset({key})), set_up=True)
    action("Ask before every").trigger()
    assert button.permissions == Permissions()
    action("Set up tools").trigger()
    assert asked
