"""Conversations of ChatGPT, LM Studio and Claude: made as those programs write them."""

import json
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.conversations import exchange
from app.conversations.records import Entry, ExportedChat
from engine.request import Request, Sampling
from models.errors import Problem
from tests.support.app.store_samples import contents, zipped

MADE = datetime(2026, 5, 9, 12, 0, tzinfo=UTC)

DATA = Path(__file__).parents[1] / "data"
LM_STUDIO = json.loads((DATA / "lm_studio.json").read_text(encoding="utf-8"))
CLAUDE = json.loads((DATA / "claude.json").read_text(encoding="utf-8"))
THOUGHT = "<think>\nLet me see.\n</think>\n\n2 and 3."


def parsed(value):
    (chat,) = exchange.parse(json.dumps(value).encode())
    return chat


def test_lm_studio(tmp_path):
    path = tmp_path / "1.conversation.json"
    path.write_text(json.dumps(LM_STUDIO))
    (chat,) = exchange.read_chats(path)
    assert (chat.title, chat.system_prompt, chat.pinned) == ("Primes", "Be brief.", True)
    assert chat.created == MADE
    assert chat.entries == (
        Entry(None, "user", "[file: plan.pdf]\n\nWhich primes?"),
        Entry(0, "assistant", THOUGHT, target="qwen3-8b"),
        Entry(0, "assistant", "Two", "cancelled", "llama"),
        Entry(1, "user", "Thanks."),
    )
    assert chat.leaf == 3
    other = deepcopy(LM_STUDIO)
    other["messages"][1]["currentlySelected"] = 1
    assert parsed(other).entries[3].parent == 2, "what follows belongs to the selected version"


def test_claude():
    chat = parsed([CLAUDE])
    assert (chat.title, chat.created, chat.updated) == ("Primes", MADE, MADE)
    question = "[file: plan.txt]\nThe plan.\n\n[file: photo.png]\n\nWhich primes?"
    assert chat.entries == (
        Entry(None, "user", question, created=MADE),
        Entry(0, "assistant", THOUGHT, target="Claude"),
        Entry(0, "assistant", "Two", target="Claude"),
        Entry(1, "user", "Thanks."),
    )
    assert chat.leaf == 3
    for message in (older := deepcopy(CLAUDE))["chat_messages"]:
        del message["parent_message_uuid"]
    assert [entry.parent for entry in parsed(older).entries] == [None, 0, 1, 2]
    files = {"users.json": "[]", "projects.json": "[]", "conversations.json": json.dumps([CLAUDE])}
    assert exchange.parse(zipped(files)) == (chat,)


def node(parent, role, said="", **more):
    """A node of ChatGPT's mapping, as the export has them."""
    content = said if isinstance(said, dict) else {"content_type": "text", "parts": [said]}
    message = {"author": {"role": role}, "content": content, "recipient": "all", **more}
    return {"parent": parent, "children": [], "message": message}


def exported(mapping, **more):
    return [{"title": "A chat", "mapping": mapping, **more}]


MAPPING = {
    # Out of order on purpose: a child may stand before its parent.
    "a2": node("u1", "assistant", "Second.", create_time=1700000002.5),
    "root": {"id": "root", "message": None, "parent": None, "children": ["sys"]},
    "sys": node("root", "system", "", metadata={"is_visually_hidden_from_conversation": True}),
    "u1": node("sys", "user", "Why?", create_time=1700000001),
    "a1": node("u1", "assistant", "First.", metadata={"model_slug": "gpt-4o"}),
    "call": node("a1", "assistant", {"content_type": "code", "text": "1+1"}, recipient="python"),
    "tool": node("call", "tool", {"content_type": "execution_output", "text": "2"}),
    "think": node("tool", "assistant", {"content_type": "thoughts", "thoughts": []}),
    "a3": node("think", "assistant", "It is 2."),
    "u2": node("a2", "user", {"content_type": "multimodal_text",
               "parts": [{"content_type": "image_asset_pointer"}, "And this?"]}),
}  # fmt: skip


def test_of_chatgpts_tree_the_machinery_is_left_out(store):
    times = {"create_time": 1700000000, "update_time": 1.7e9 + 9}
    chat = parsed(exported(MAPPING, current_node="a3", **times))
    assert contents(chat.branch()) == ["Why?", "First.", "It is 2."]
    assert chat.created == datetime.fromtimestamp(1700000000, UTC)
    (added,) = store.add([chat]).result()
    assert added.title == "A chat"
    branch = store.branch(added.id).result()
    assert contents(branch) == ["Why?", "First.", "It is 2."]
    assert branch[1].target == "gpt-4o"
    versions = {each.content: each.id for each in store.siblings(branch[1].id).result()}
    assert versions.keys() == {"First.", "Second."}
    switched = store.switch(versions["Second."]).result()
    assert contents(switched) == ["Why?", "Second.", "[image]\n\nAnd this?"]
    for current in (None, "nowhere", 7, "root"):
        assert parsed(exported(MAPPING, current_node=current)).branch(), current


MARK = "\ue200cite\ue202turn0search3\ue201"


def test_marks_of_sources_become_links_and_files_are_named():
    for said, more, content in (
        (f"It is so{MARK}.", {"content_references": [{"matched_text": MARK, "alt": " ([A](b))"}]},
         "It is so ([A](b))."),
        (f"So{MARK} or【12†source】 so.", {"content_references": [{"matched_text": "or"}, 7]},
         "So or so."),
        ("See【3:0†a.pdf】", {"attachments": [{"name": "a.pdf"}, {"name": 7}]},
         "See\n\n[file: a.pdf]"),
        ("", {"attachments": [{"name": "a.pdf"}]}, "[file: a.pdf]"),
        ("Ask 【the keeper】.", {}, "Ask 【the keeper】."),
    ):  # fmt: skip
        chat = parsed(exported({"a": node(None, "user", said, metadata=more)}, is_archived=True))
        assert (contents(chat.entries), chat.archived) == ([content], True)


def test_a_zip_is_read_as_it_was_downloaded(tmp_path):
    empty = {"title": "Empty", "mapping": {"root": {"message": None, "parent": None}}}
    other = [empty, {"title": "**Other** `code`", "mapping": MAPPING}, empty]
    files = {"user.json": "{}", "chat.html": "<html>"}
    files |= {
        f"conversations-00{number}.json": json.dumps(value)
        for number, value in enumerate((exported(MAPPING), other))
    }
    path = tmp_path / "export.zip"
    data = zipped(files)
    path.write_bytes(data)
    assert [chat.title for chat in exchange.read_chats(path)] == ["A chat", "Other code"]
    assert exchange.parse(data) == exchange.read_chats(path)
    for start in range(4, len(data), 7):
        with suppress(Problem):
            assert exchange.parse(data[:start] + b"\xff\x01" + data[start + 2 :])


def test_a_tree_may_be_very_deep(store):
    mapping = {str(i): node(str(i - 1), "user", f"m{i}") for i in range(1_500)}
    backwards = dict(reversed(mapping.items()))
    chat = parsed(exported(backwards, current_node="1499"))
    assert len(chat.branch()) == 1_500
    (added,) = store.add([chat]).result()
    branch = store.branch(added.id).result()
    assert contents(branch) == [f"m{i}" for i in range(1_500)]
    store.edit(branch[0].id, "otherwise").result()
    assert store.switch(branch[0].id).result()[-1] == branch[-1]


def test_an_absurd_time_is_none(store):
    for time in (-1, 0, 1e300, "yesterday", [], True, 10**400, "9999-12-31T23:59:59.999"):
        mapping = {"a": node(None, "user", "x", create_time=time)}
        chat = parsed(exported(mapping, create_time=time, update_time=time))
        assert chat.created is chat.updated is chat.entries[0].created is None
        (added,) = store.add([chat]).result()
        assert added in store.conversations().result()


MORE = {
    "attachments": [{"name": "a.pdf"}],
    "content_references": [{"matched_text": "W", "alt": "w"}],
}
CHATGPT = {
    "title": "Primes",
    "current_node": "b",
    "create_time": 1.7e9,
    "mapping": {
        "a": node(None, "user", "Which?", metadata=MORE),
        "b": node("a", "assistant", "Two", create_time=1.7e9),
    },
}
OURS = json.loads(
    exchange.to_json(
        ExportedChat(
            "Primes",
            (Entry(None, "user", "Which?", created=MADE), Entry(0, "assistant", "Two", "length")),
            leaf=1,
            settings=Request(sampling=Sampling(temperature=0.5), stops=("x",)),
            updated=MADE,
        )
    )
)
OPENAI = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Which?"}]}]}


def spoil(part):
    """Put what does not belong there in the place of each part of this one, one after the other."""
    for key in part if isinstance(part, dict) else range(len(part)):
        whole = part[key]
        for odd in (None, "odd", {}, [[]], -1e99):
            part[key] = odd
            yield
        part[key] = whole
        if isinstance(whole, dict | list):
            yield from spoil(whole)


@pytest.mark.parametrize(
    "value",
    [LM_STUDIO, [CLAUDE], [CHATGPT], OURS, OPENAI],
    ids=["LM Studio", "Claude", "ChatGPT", "ours", "OpenAI"],
)
def test_damaged_files_give_what_is_whole_or_one_clear_line(value):
    value, seen = deepcopy(value), []
    assert exchange.parse(json.dumps(value).encode())
    for _ in spoil(value):
        chats, said = (), ""
        try:
            chats = exchange.parse(json.dumps(value).encode())
        except Problem as refused:
            said = str(refused)
        assert "\n" not in said
        for chat in chats:
            if chat not in seen:
                assert exchange.parse(exchange.to_json(chat).encode()) == (chat,)
                assert exchange.to_markdown(chat)
                seen.append(chat)
