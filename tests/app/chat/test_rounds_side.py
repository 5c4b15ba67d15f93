"""The panel beside the conversation has the figures of the answer that it names."""

from concurrent.futures import Future

from app.chat.rounds_side import RoundsSide
from models.errors import Problem
from tests.support.app.made_traces import made_trace
from tests.support.app.window_maker import events_file


def test_an_answer_whose_trace_cannot_be_read_has_no_figures_of_another(
    begin, qtbot, tmp_path, monkeypatch
):
    play = f"take play:{events_file(tmp_path, made_trace('an answer'))}"
    talk = begin(f"ready take load {play} {play} take")
    talk.ask("one")
    talk.ask("two")
    first, last = talk.conversation.branch[1::2]
    side = RoundsSide(talk.conversation, talk.answers)
    qtbot.addWidget(side)
    damaged = Future()
    damaged.set_exception(Problem("The rounds cannot be shown.", "Regenerate the answer."))
    for answer, hidden in ((last, True), (first, False)):
        side.show_answer(answer.id)
        talk.until(lambda hidden=hidden: side.hint.isVisibleTo(side) != hidden)
        monkeypatch.setattr(talk.store, "trace", lambda id: damaged)
