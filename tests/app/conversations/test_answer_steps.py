"""What is stored with an answer: its steps, kept, copied, exported and imported; its figures,
derived from its events; and its reasoning, found where only marks show it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat.web_page import page_of
from app.conversations import exchange
from app.conversations.answer_figures import figures_of
from app.conversations.answer_steps import permissions_from_json, permissions_to_json
from app.conversations.stored_json import read_or
from app.conversations.think_tags import (
    stretches_from_json,
    stretches_in,
    stretches_to_json,
    tagged,
)
from engine.events import Done, Failed, Prefill, Stats, Text
from engine.stretches import Stretch, divided, joined, said
from engine.tools.steps import Step, StepCall
from engine.tools.turn import Permissions
from models.errors import Problem
from tests.support.app.markdown_texts import reasoning
from tests.support.app.store_samples import answered, asked, round_of

CALL = '<tool_call>{"name": "read_file", "arguments": {"path": "notes.md"}}</tool_call>'
THINKS = "<think>Hm.</think>"
TEXT = f"{THINKS}I look.{CALL}All is well."
LENGTHS = (("mark", 7), ("reasoning", 3), ("mark", 8), ("content", 7), ("call", len(CALL)))
STRETCHES = (*(Stretch(*each) for each in LENGTHS), Stretch("content", 12))
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


def test_steps_are_given_to_the_model_and_neither_calls_nor_results_are_searched(store):
    answer = stored(store)
    assert answer.steps == STEPS
    assert [one.role for one in answer.as_chat] == ["assistant", "tool", "tool", "assistant"]
    assert answer.as_chat[0].written + answer.as_chat[-1].written == TEXT
    assert answer.as_chat[1].content == NASTY
    assert [hit.message for hit in store.search("look well").result()] == [answer.id]
    for words in ("tool_call", "read_file", "notes", "alert"):
        assert store.search(words).result() == ()


def test_damaged_steps_are_none_and_such_files_are_refused(store):
    for kept in ("", "nonsense", "{}", '[{"place": "x"}]', "[" * 100_000):
        assert read_or(tuple[Step, ...], kept, ()) == ()
        assert permissions_from_json(kept) == Permissions()
    value = json.loads(exchange.to_json(store.chat(stored(store).conversation).result()))
    for wrong in ([{"place": 10_000, "calls": []}], [{"place": -1, "calls": []}], [7], 7):
        value["tree"][-1]["steps"] = wrong
        with pytest.raises(Problem):
            exchange.parse(json.dumps(value).encode())


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
    others_read = json.loads(written)["messages"][-1]["content"]
    assert "All is well." in others_read
    assert "tool_call" not in others_read


def test_markdown_and_pages_have_each_call_in_its_place_as_text(store):
    chat = store.chat(stored(store).conversation).result()
    parts = ("I look.", "read_file notes.md", "write_file", "All is well.")
    text = exchange.to_markdown(chat)
    places = [text.index(part) for part in ("Hm.", *parts)]
    assert places == sorted(places)
    assert "tool_call" not in text
    # Its fence is longer than any in the result, so that nothing in it is Markdown.
    assert f"`````\n{NASTY}\n`````" in text
    for paper, folded in ((False, 3), (True, 0)):
        page = page_of(chat, paper=paper)
        places = [page.index(part) for part in parts]
        assert places == sorted(places)
        assert "<script>" not in page
        assert "&lt;script&gt;" in page
        assert page.count("<details>") == folded


ROUNDS = (*round_of(1), *round_of(2))  # two tokens each, 0.011 s each
READ = (Prefill("g", 0, 5, 0, 0.0), Prefill("g", 5, 5, 0, 0.25))


def test_they_are_derived_from_the_events():
    before = Text("", "from another program")
    found = figures_of((before, *READ, *ROUNDS, Done("g", "length", Stats())))
    assert (found.tokens, found.stop_reason) == (4, "length")
    assert found.decode_seconds == pytest.approx(0.022)
    assert found.first_token_seconds == pytest.approx(0.25 + 0.011)
    assert found.tokens_per_second == pytest.approx(4 / 0.022)
    held = (*round_of(1)[:2], Text("g", ""))  # half a character is not yet text
    later = figures_of((*READ, *held, *round_of(2)))
    assert later.first_token_seconds == pytest.approx(0.25 + 0.022)
    assert figures_of((*READ, *held)).first_token_seconds is None


def test_how_it_ended_is_stored_with_it(store):
    for last, reason in (
        (Done("g", "stop", Stats()), "end"),
        (Done("g", "stop", Stats(), cut="END"), "stop string"),
        (Done("g", "length", Stats()), "length"),
        (Done("g", "cancelled", Stats()), "cancelled"),
        (Failed("g", "message", "remedy"), "failed"),
    ):
        assert figures_of((*ROUNDS, last)).stop_reason == reason
        assert figures_of((*READ, last)) is None, "without a round"
    done = answered(store, asked(store))
    assert done.figures == figures_of(round_of(0))
    assert store.branch(done.conversation).result()[1].figures == done.figures
    begun = store.begin_answer(asked(store).id, target="t", drafter="").result()
    assert begun.figures is None


def test_reasoning_is_found_by_its_marks():
    for text, inside, answer in (
        ("<think>\na\n</think>\n\nb", "a", "b"),
        ("\n<think>a</think>b", "a", "b"),
        ("a\n</think>\n\nb", "a", "b"),
        ("[THINK]a[/THINK]b", "a", "b"),
        ("<think>a", "a", ""),
        ("<think>\n\n</think>\n\nb", "", "b"),
        ("<think></think>b", "", "b"),
        ("a <think>b</think>", "", "a <think>b</think>"),
        ("Use `</think>` so.\n", "", "Use `</think>` so.\n"),
        ("Hello\n\n<think>\na\n</think>\n", "", "Hello\n\n<think>\na\n</think>\n"),
    ):
        stretches = stretches_in(text)
        assert (said(text, stretches, "reasoning"), said(text, stretches)) == (inside, answer), text


@given(text=reasoning)
def test_each_character_has_a_place(text):
    stretches = stretches_in(text)
    assert "".join(part for _, part in divided(text, stretches)) == text
    assert not stretches or sum(one.length for one in stretches) == len(text)
    assert tagged(text, stretches) == text
    assert stretches_from_json(stretches_to_json(stretches), text) == stretches
    assert stretches_from_json(None, text) == stretches_from_json("[7", text) == stretches


@given(kinds=st.lists(st.sampled_from(["content", "reasoning", "mark"]), min_size=1))
def test_what_is_spelled_says_the_same(kinds):
    text = "ab." * len(kinds)
    stretches = joined(Stretch(kind, 3) for kind in kinds)
    again = tagged(text, stretches)
    for kind in ("reasoning", "content"):
        assert said(again, stretches_in(again), kind) == said(text, stretches, kind)
