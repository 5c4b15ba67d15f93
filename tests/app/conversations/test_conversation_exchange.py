"""Export and import: what goes out comes back, and OpenAI's JSON is understood."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversations.exchange import parse, read_chats, to_json, to_markdown
from app.conversations.records import Entry, ExportedChat
from app.conversations.store import Store
from engine.request import Request, Sampling
from models.errors import Problem
from tests.support.app.store_samples import answered, asked, contents

moments = st.none() | st.datetimes(
    datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)
)


@st.composite
def chats(draw):
    count = draw(st.integers(1, 8))
    entries = tuple(
        Entry(
            parent=draw(st.none() | st.integers(0, index - 1)) if index else None,
            role=draw(st.sampled_from(["system", "user", "assistant"])),
            content=draw(st.text(max_size=20)),
            state=draw(st.sampled_from(["complete", "interrupted", "failed", "length"])),
            target=draw(st.text(max_size=5)),
            drafter=draw(st.text(max_size=5)),
            created=draw(moments),
        )
        for index in range(count)
    )
    return ExportedChat(
        title=draw(st.text(max_size=20)),
        entries=entries,
        leaf=draw(st.none() | st.integers(0, count - 1)),
        system_prompt=draw(st.text(max_size=20)),
        settings=draw(st.none() | st.just(Request(sampling=Sampling(temperature=0.5)))),
        pinned=draw(st.booleans()),
        created=draw(moments),
        updated=draw(moments),
        folder=draw(st.text(max_size=5)),
        archived=draw(st.booleans()),
    )


def openai(value):
    (chat,) = parse(json.dumps(value).encode())
    return chat


@given(chats())
def test_our_own_json_comes_back_as_it_was(chat):
    written = to_json(chat)
    assert parse(written.encode()) == (chat,)
    prompt = [{"role": "system", "content": chat.system_prompt}] if chat.system_prompt else []
    shown = [{"role": entry.role, "content": entry.content} for entry in chat.branch()]
    assert json.loads(written)["messages"] == prompt + shown, "others read the branch"
    page = to_markdown(chat)
    assert page.startswith("# ")
    assert all(entry.content in page for entry in chat.branch())


def test_a_chat_goes_out_of_a_store_and_into_another(store, tmp_path):
    question = asked(store, "One?")
    answered(store, question, "One.")
    edited = store.edit(question.id, "Uno?\ud83d").result()
    store.begin_answer(edited.id, target="t", drafter="d").result()
    store.switch(question.id).result()
    store.pin(question.conversation, pinned=True).result()
    settings = Request(max_tokens=7)
    store.configure(question.conversation, system_prompt="Brief.", settings=settings).result()
    chat = store.chat(question.conversation).result()
    file = tmp_path / "chat.json"
    file.write_text(to_json(chat), encoding="utf-8")
    with Store.open(tmp_path / "other.sqlite") as other:
        (added,) = other.add(read_chats(file)).result()
        assert (added.title, added.pinned, added.system_prompt) == ("One?", True, "Brief.")
        assert added.settings == settings
        assert contents(other.branch(added.id).result()) == ["One?", "One."]
        assert other.chat(added.id).result() == chat
        assert [hit.conversation for hit in other.search("uno").result()] == [added.id]


def test_an_import_is_all_or_nothing(store):
    good = ExportedChat(
        title="good", entries=(Entry(parent=None, role="user", content="x"),), leaf=0
    )
    wrong = Entry(parent=None, role="tool", content="x")
    bad = ExportedChat(title="bad", entries=(wrong,))
    with pytest.raises(Exception, match="CHECK"):
        store.add([good, bad]).result()
    assert store.conversations().result() == ()
    assert len(store.add([good, good]).result()) == 2


def test_markdown_is_the_branch_that_is_shown(store):
    question = asked(store, "Why?")
    answer = store.begin_answer(question.id, target="Qwen3 4-bit", drafter="lookup").result()
    store.finish_answer(answer.id, "It is\n\n- so", (), state="length").result()
    store.edit(question.id, "elsewhere").result()
    store.switch(question.id).result()
    store.configure(question.conversation, system_prompt="Be brief.", settings=None).result()
    assert to_markdown(store.chat(question.conversation).result()) == (
        "# Why?\n\n## System\n\nBe brief.\n\n## User\n\nWhy?\n\n"
        "## Assistant (Qwen3 4-bit + lookup) (stopped at the token limit)\n\nIt is\n\n- so\n"
    )


MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "image_url"}]},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
    {"role": "tool", "content": "42", "tool_call_id": "1"},
    {"role": "assistant", "content": "A cat."},
    {"role": "user", "content": [{"type": "input_text", "text": "Sure?"}]},
]


def test_openai_messages_are_read():
    for wrapped in (MESSAGES, {"messages": MESSAGES}, [MESSAGES]):
        chat = openai(wrapped)
        assert chat.system_prompt == "Be brief."
        assert [(entry.role, entry.content) for entry in chat.branch()] == [
            ("user", "What is\n\n[image]"),
            ("assistant", "A cat."),
            ("user", "Sure?"),
        ]
        assert len(chat.entries) == 3
    chat = openai([*MESSAGES, {"role": "developer", "content": "Longer!"}])
    assert (chat.branch()[-1].role, chat.branch()[-1].content) == ("system", "Longer!")


def test_several_chats_in_one_file(store):
    value = [{"messages": MESSAGES, "title": "Mine"}, MESSAGES, {"messages": []}]
    found = parse(b"\xef\xbb\xbf" + json.dumps(value).encode())
    assert [chat.title for chat in found] == ["Mine", ""]
    added = store.add(found).result()
    assert [conversation.title for conversation in added] == ["Mine", "What is"]


def test_what_cannot_be_read_is_one_clear_line():
    for data, message in (
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"PK\x03\x04....", r"\.zip file is damaged"),
        (b"[" * 10**6, "nested too deeply"),
        (b'{"a":' * 10**6, "nested too deeply"),
        (b"1" * 10**6, "a number that is too long"),
        (b'{"a": 1,\n "b" 2}', "line 2 cannot be read from its character 6"),
        (b"null", "No messages"),
        (b"[]", "no messages"),
        (b"{}", "No messages"),
        (b'[{"x": 1}]', "In conversation 1: no messages"),
        (b'{"messages": {}}', "not a list"),
        (b'{"messages": [1]}', "In message 1: this is not an object"),
        (b'[[{"role": "user", "content": "x"}, {"role": ["user"]}]]', "1: in message 2: the role"),
        (b'[{"role": "wizard", "content": "x"}]', "In message 1: the role must be one of"),
        (b'[{"role": "user", "content": {"a": 1}}]', "the content is neither"),
        (b'{"slipstream": 2}', "newer version"),
        (b'{"slipstream": 1, "tree": [{"parent": 0}]}', "In message 1 of the tree: the role"),
        (b'{"slipstream": 1, "tree": [{"role": "tool"}]}', "In message 1 of the tree: the role"),
        (b'{"slipstream": 1, "tree": [], "leaf": 0}', "leaf"),
        (b'{"mapping": []}', "mapping"),
    ):
        with pytest.raises(Problem, match=message) as caught:
            parse(data)
        for line in (caught.value.message, caught.value.remedy):
            assert 0 < len(line) < 200, message
            assert len(line.splitlines()) == 1, message


def test_absurd_numbers_and_names_end_no_import(store):
    picture = {
        "number": 10**30, "name": "a", "ranges": [], "digest": "a" * 999, "pixels": [1, 1],
    }  # fmt: skip
    call = {"id": "1", "name": "f", "arguments": "{}", "state": "done", "bytes": 10**400}
    said = {"role": "user", "sent": {"text": "x", "documents": [picture]}}
    answer = {"role": "assistant", "parent": 0, "steps": [{"place": 0, "calls": [call]}]}
    tree = [{"state": "complete", "content": "x", **entry} for entry in (said, answer)]
    file = {"slipstream": 1, "tree": tree, "leaf": 1}
    (added,) = store.add(parse(json.dumps(file).encode())).result()
    assert "{}" in to_markdown(store.chat(added.id).result())


def test_a_huge_file_and_none_are_refused(tmp_path, monkeypatch):
    for place in (tmp_path / "missing.json", tmp_path):
        with pytest.raises(Problem, match="cannot be read"):
            read_chats(place)
    monkeypatch.setattr("app.conversations.exchange.LARGEST_BYTES", 100)
    file = tmp_path / "huge.json"
    file.write_bytes(b" " * 101)
    with pytest.raises(Problem, match="larger than"):
        read_chats(file)
