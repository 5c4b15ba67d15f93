"""The steps of an answer: stored, kept through a crash, copied, searched, exported and imported."""

import json

import pytest

from app.chat.web_page import page_of
from app.conversations import exchange
from app.conversations.answer_steps import (
    permissions_from_json,
    permissions_to_json,
)
from app.conversations.stored_json import read_or
from engine.events import Text
from engine.stretches import Stretch
from engine.tools.steps import Step, StepCall
from engine.tools.turn import Permissions
from models.errors import Problem
from tests.support.app.store_samples import asked

CALL = '<tool_call>{"name": "read_file", "arguments": {"path": "notes.md"}}</tool_call>'
THINKS = "<think>Hm.</think>"
TEXT = f"{THINKS}I look.{CALL}All is well."
STRETCHES = (
    Stretch("mark", 7),
    Stretch("reasoning", 3),
    Stretch("mark", 8),
    Stretch("content", 7),
    Stretch("call", len(CALL)),
    Stretch("content", 12),
)
NASTY = "Well. </details>\n```\n<script>alert(1)</script>\n````"
STEPS = (
    Step(
        len(TEXT) - 12,
        (
            StepCall(
                "g_0", "read_file", '{"path": "notes.md"}', "files", "read_file",
                state="done", result=NASTY, seconds=0.1, bytes=2000,
            ),
            StepCall("g_1", "write_file", "{}", "files", "write_file", state="refused"),
        ),
    ),
)  # fmt: skip


def stored(store, steps=STEPS):
    begun = store.begin_answer(asked(store).id, target="Qwen3", drafter="").result()
    events = (Text("g", TEXT, stretches=STRETCHES),)
    store.flush_answer(begun.id, TEXT, events, steps=steps).result()
    return store.finish_answer(begun.id, TEXT, events, state="complete", steps=steps).result()


def test_steps_are_stored_and_given_to_the_model(store):
    answer = stored(store)
    assert answer.steps == STEPS
    assert [one.role for one in answer.as_chat] == ["assistant", "tool", "tool", "assistant"]
    assert answer.as_chat[0].written + answer.as_chat[-1].written == TEXT
    assert answer.as_chat[1].content == NASTY


@pytest.mark.parametrize("kept", ["", "nonsense", "{}", '[{"place": "x"}]', "[" * 100_000])
def test_damaged_steps_are_none(kept):
    assert read_or(tuple[Step, ...], kept, ()) == ()
    assert permissions_from_json(kept) == Permissions()


def test_steps_go_with_their_answer_and_no_permission_goes_along(store):
    answer = stored(store)
    allowed = Permissions(frozenset({("a", "b")}), frozenset({("c", "d"), ("c", "e")}))
    assert permissions_to_json(Permissions(trusted=frozenset({"a"}))) == ""
    store.permit(answer.conversation, allowed).result()
    assert store.conversation(answer.conversation).result().permissions == allowed
    copy = store.duplicate(answer.conversation).result()
    assert copy.permissions == Permissions()
    assert store.branch(copy.id).result()[-1].steps == STEPS
    change = store.delete_message(answer.id).result()
    store.undo(change).result()
    assert store.message(answer.id).result().steps == STEPS
    edited = store.edit(answer.id, "All was well.").result()
    assert edited.steps == ()


def test_neither_calls_nor_results_are_searched(store):
    answer = stored(store)
    assert [hit.message for hit in store.search("look well").result()] == [answer.id]
    for words in ("tool_call", "read_file", "notes", "alert"):
        assert store.search(words).result() == ()


def test_an_answer_with_steps_leaves_and_comes_back_exactly(store):
    answer = stored(store)
    written = exchange.to_json(store.chat(answer.conversation).result())
    (read,) = exchange.parse(written.encode())
    assert read == store.chat(answer.conversation).result()
    (running,) = exchange.parse(written.replace('"state": "done"', '"state": "running"').encode())
    assert running.entries[-1].steps[0].calls[0].state == "cancelled", "it does not run here"
    (record,) = store.add([read]).result()
    again = store.branch(record.id).result()[-1]
    assert (again.content, again.stretches, again.steps) == (TEXT, STRETCHES, STEPS)
    said = json.loads(written)["messages"][-1]["content"]
    assert "All is well." in said
    assert "tool_call" not in said


def test_steps_that_do_not_fit_their_text_are_refused(store):
    value = json.loads(exchange.to_json(store.chat(stored(store).conversation).result()))
    for wrong in ([{"place": 10_000, "calls": []}], [{"place": -1, "calls": []}], [7], 7):
        value["tree"][-1]["steps"] = wrong
        with pytest.raises(Problem, match="message 2"):
            exchange.parse(json.dumps(value).encode())


def test_markdown_has_each_call_folded_in_its_place(store):
    text = exchange.to_markdown(store.chat(stored(store).conversation).result())
    places = [text.index(part) for part in ("Hm.", "I look.", "read_file notes.md", "write_file",
                                            "All is well.")]  # fmt: skip
    assert places == sorted(places)
    assert "tool_call" not in text
    # Its fence is longer than any in the result, so that nothing in it is Markdown.
    assert f"`````\n{NASTY}\n`````" in text


@pytest.mark.parametrize("paper", [False, True])
def test_a_page_has_each_call_as_text(store, paper):
    page = page_of(store.chat(stored(store).conversation).result(), paper=paper)
    places = [page.index(part) for part in ("I look.", "read_file notes.md", "All is well.")]
    assert places == sorted(places)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<details>") == (0 if paper else 3)
