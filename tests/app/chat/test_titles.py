"""The model's titles: asked for while nothing else is, checked, and never in the user's way."""

import json
from ast import literal_eval
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.chat.titles import FEWEST_PARAMETERS, REQUEST, TitleWriter, parameters_in, title_in
from engine.events import Done, Stats, Text
from engine.request import ChatMessage
from tests.support.app.kept import kept
from tests.support.app.talk import refused
from tests.support.app.window_maker import events_file

QUESTION = "Why is the sky blue, and red in the evening?"


def test_a_title_is_a_few_words_and_parameters_are_counted_from_the_config(tmp_path):
    rows = [literal_eval(line) for line in kept("titles.txt").splitlines()]
    found = "".join(f"{(written, title_in(written, QUESTION))!r}\n" for written, _ in rows)
    assert found == kept("titles.txt", found)
    assert parameters_in(tmp_path) == 0
    config = {"hidden_size": 2048, "vocab_size": 49_152, "num_hidden_layers": 24,
              "intermediate_size": 8192, "num_attention_heads": 32}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert parameters_in(tmp_path) > FEWEST_PARAMETERS
    (tmp_path / "config.json").write_text("{}")
    assert parameters_in(tmp_path) == 0


def writes(folder, text, *, name):
    """The step of a fake host that writes an answer."""
    events = (Text("g", text), Done("g", "stop", Stats()))
    return f"take play:{events_file(folder, events, name=name)}"


@pytest.fixture
def write_titles(watch):
    """Have titles written beside a talk. Returns `asked`, what the engine was asked; `titled`, the
    conversations that got a title; `looks`, for what could be titled; and what tests change."""
    writers = []

    def write(talk):
        made = SimpleNamespace(titled=[], looks=[], wanted=True, parameters=FEWEST_PARAMETERS)
        made.asked = watch(talk.engine)
        writers.append(
            TitleWriter(
                talk.store,
                talk.engine,
                talk.answers,
                wanted=lambda: made.wanted,
                target=lambda: made.looks.append(1) or Path("/models/tiny"),
                parameters=lambda folder: made.parameters,
                rest_ms=1,
            )
        )
        writers[-1].titled.connect(made.titled.append)
        return made

    yield write
    for writer in writers:
        writer.close()


def test_a_title_is_asked_for_in_the_conversation_itself(begin, tmp_path, write_titles):
    answer = writes(tmp_path, "Because.", name="answer")
    title = writes(tmp_path, "Colours of the sky", name="title")
    talk = begin(f"ready take load {answer} {title} {answer} take")
    titles = write_titles(talk)
    happened = []
    talk.answers.happened.connect(lambda writing, event: happened.append(event))
    talk.ask(QUESTION)
    events = list(happened)
    talk.until(lambda: titles.titled)
    record = talk.conversation.record
    assert titles.titled == [record.id]
    first, asked = titles.asked
    assert asked.conversation == str(record.id)
    said = (ChatMessage("assistant", "Because."), ChatMessage("user", REQUEST))
    assert asked.lines == first.lines + said
    assert (asked.request.sampling.greedy, asked.request.max_tokens) == (True, 16)
    assert happened == events, "no answer gets what is written for the title"
    assert [content for _, content, _ in talk.stored()] == [QUESTION, "Because."]
    talk.ask("more")
    talk.until(lambda: len(titles.asked) == 3)
    talk.answers.flush()
    record = talk.store.conversation(record.id).result()
    assert (record.title, record.titled) == ("Colours of the sky", True), "asked for once only"


@pytest.mark.parametrize("reason", ["switched off", "small model", "named"])
def test_none_is_asked_for(begin, write_titles, reason):
    talk = begin("ready take load serve")
    titles = write_titles(talk)
    titles.wanted = reason != "switched off"
    titles.parameters = FEWEST_PARAMETERS - (reason == "small model")
    talk.conversation.say(QUESTION)
    talk.until_told("begun")
    record = talk.conversation.record
    if reason == "named":
        talk.store.rename(record.id, "Mine").result()
    talk.until_told("saved")
    if titles.wanted:
        talk.until(lambda: titles.looks)
    talk.ask("more")  # by then, all that came of that look has happened
    assert len(titles.asked) == 2
    assert bool(titles.looks) == titles.wanted


def test_each_conversation_gets_its_own_title_or_keeps_its_first_words_for_good(
    begin, tmp_path, write_titles, monkeypatch
):
    gate = tmp_path / "gate"
    answer = writes(tmp_path, "Because.", name="answer")
    no_title = writes(tmp_path, "Sure! Here is one", name="title")
    talk = begin(
        f"ready take load {answer} {answer} take wait:{gate} text:Colours done {no_title} take"
    )
    titles, finish = write_titles(talk), talk.store.finish_answer

    def late(answer, *written, **options):
        unsaved = answer == first.id and len(titles.asked) < 3
        return refused() if unsaved else finish(answer, *written, **options)

    monkeypatch.setattr(talk.store, "finish_answer", late)
    talk.conversation.say("What is it?")
    talk.until_told("begun")
    first = talk.conversation.branch[-1]
    talk.until_told("finished")
    talk.conversation.new()
    talk.ask(QUESTION)
    second = talk.conversation.branch[-1]
    talk.until(lambda: len(titles.asked) == 3)
    talk.answers.flush()
    talk.until_told("saved", 2)  # the first, while the title of the second is written
    gate.touch()
    talk.until(lambda: titles.titled)
    assert titles.titled == [second.conversation]
    talk.until(lambda: talk.store.conversation(first.conversation).result().titled)
    given = [talk.store.conversation(each.conversation).result().title for each in (first, second)]
    wanted = ["What is it?", "Colours"]
    assert (given, len(titles.titled)) == (wanted, 1)


@pytest.mark.parametrize("dies", [False, True])
def test_a_question_and_a_death_end_the_title_and_harm_nothing(
    begin, tmp_path, write_titles, monkeypatch, dies
):
    answer = writes(tmp_path, "Because.", name="answer")
    then = "kill -- ready take load serve" if dies else f"text:Colours {answer} take"
    talk = begin(f"ready take load {answer} take {then}")
    titles = write_titles(talk)
    cancelled = []
    cancel = talk.engine.cancel
    monkeypatch.setattr(talk.engine, "cancel", lambda id: (cancelled.append(id), cancel(id)))
    talk.ask(QUESTION)
    talk.until(lambda: len(titles.asked) == 2)
    titles.wanted = False
    talk.until(lambda: not dies or not talk.engine.answering)
    talk.ask("more")
    assert len(cancelled) == (not dies)
    assert [state for _, _, state in talk.stored()] == ["complete"] * 4
    (record,) = talk.store.conversations().result()
    assert (record.title, record.titled) == (QUESTION, False)
    assert titles.titled == talk.problems == []
