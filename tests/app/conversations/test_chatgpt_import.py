"""The conversations.json of a ChatGPT export: the tree, what is left out, what is hostile."""

import json
import zipfile
from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversations.exchange import parse, read_chats
from models.errors import Problem
from tests.support.app.store_samples import contents


def node(parent, role, said="", **more):
    """A node of the mapping, as the export has them."""
    content = said if isinstance(said, dict) else {"content_type": "text", "parts": [said]}
    message = {"author": {"role": role}, "content": content, "recipient": "all", **more}
    return {"parent": parent, "children": [], "message": message}


def export(mapping, **more):
    return json.dumps([{"title": "A chat", "mapping": mapping, **more}]).encode()


def one(data):
    (chat,) = parse(data)
    return chat


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


def test_the_tree_is_kept_and_the_machinery_left_out(store):
    chat = one(export(MAPPING, current_node="a3", create_time=1700000000, update_time=1.7e9 + 9))
    assert [entry.content for entry in chat.branch()] == ["Why?", "First.", "It is 2."]
    assert chat.created == datetime.fromtimestamp(1700000000, UTC)
    (added,) = store.add([chat]).result()
    assert added.title == "A chat"
    branch = store.branch(added.id).result()
    assert contents(branch) == ["Why?", "First.", "It is 2."]
    assert branch[1].target == "gpt-4o"
    assert {m.content for m in store.siblings(branch[1].id).result()} == {"First.", "Second."}
    second = next(m for m in store.siblings(branch[1].id).result() if m.content == "Second.")
    assert contents(store.switch(second.id).result()) == ["Why?", "Second.", "[image]\n\nAnd this?"]


def test_marks_of_sources_become_links_and_files_are_named():
    mark = "\ue200cite\ue202turn0search3\ue201"
    for said, more, content in (
        (f"It is so{mark}.", {"content_references": [{"matched_text": mark, "alt": " ([A](b))"}]},
         "It is so ([A](b))."),
        (f"So{mark} or【12†source】 so.", {"content_references": [{"matched_text": "or"}, 7]},
         "So or so."),
        ("See【3:0†a.pdf】", {"attachments": [{"name": "a.pdf"}, {"name": 7}]},
         "See\n\n[file: a.pdf]"),
        ("", {"attachments": [{"name": "a.pdf"}]}, "[file: a.pdf]"),
        ("Ask 【the keeper】.", {}, "Ask 【the keeper】."),
    ):  # fmt: skip
        chat = one(export({"a": node(None, "user", said, metadata=more)}, is_archived=True))
        assert ([entry.content for entry in chat.entries], chat.archived) == ([content], True)


def zipped(**files):
    """A .zip of files, named with `__` for a dot."""
    data = BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "."), content)
    return data.getvalue()


def test_a_zip_is_read_as_it_was_downloaded(tmp_path):
    other = {"title": "**Other** `code`", "mapping": MAPPING}
    path = tmp_path / "export.zip"
    path.write_bytes(
        zipped(
            user__json=b"{}",
            chat__html=b"<html>",
            **{
                "conversations-000__json": export(MAPPING),
                "conversations-001__json": json.dumps([other]).encode(),
            },
        )
    )
    assert [chat.title for chat in read_chats(path)] == ["A chat", "Other code"]
    assert parse(path.read_bytes()) == read_chats(path)


def test_a_zip_without_conversations_is_a_problem(monkeypatch):
    monkeypatch.setattr("app.conversations.exchange.LARGEST_BYTES", 1 << 20)
    for data, message in (
        (zipped(readme__txt=b"x"), "contains no conversations"),
        (zipped(conversations__json=b"[}"), "conversations.json in the .zip: the file is not JSON"),
        (zipped(conversations__json=b"[]"), "contains no messages"),
        (zipped(conversations__json=export(MAPPING))[:-40], "damaged"),
        (zipped(conversations__json=bytes((1 << 20) + 1)), "larger than 1 MB"),
    ):
        with pytest.raises(Problem, match=f"(?i){message}"):
            parse(data)


@given(st.integers(0, 500), st.binary(min_size=1, max_size=20))
def test_any_damage_to_a_zip_gives_chats_or_a_problem(start, noise):
    data = bytearray(zipped(conversations__json=export(MAPPING)))
    data[4 + start : 4 + start + len(noise)] = noise
    with suppress(Problem):
        assert parse(bytes(data))


def test_a_circle_is_a_problem():
    mapping = {"a": node("c", "user", "x"), "b": node("a", "user", "x"), "c": node("b", "user")}
    with pytest.raises(Problem, match="In conversation 1: the messages run in a circle"):
        parse(export(mapping))
    with pytest.raises(Problem, match="circle"):
        parse(export({"a": node("a", "user", "x")}))


def test_a_tree_may_be_very_deep(store):
    mapping = {str(i): node(str(i - 1), "user", f"m{i}") for i in range(1_500)}
    backwards = dict(reversed(mapping.items()))
    chat = one(export(backwards, current_node="1499"))
    assert len(chat.branch()) == 1_500
    (added,) = store.add([chat]).result()
    branch = store.branch(added.id).result()
    assert contents(branch) == [f"m{i}" for i in range(1_500)]
    store.edit(branch[0].id, "otherwise").result()
    assert store.switch(branch[0].id).result()[-1] == branch[-1]


def test_without_a_current_node_something_is_shown_and_without_messages_nothing():
    for current in (None, "nowhere", 7, "root"):
        assert one(export(MAPPING, current_node=current)).branch(), current
    empty = {"title": "Empty", "mapping": {"root": {"message": None, "parent": None}}}
    full = {"title": "Full", "mapping": MAPPING}
    assert [chat.title for chat in parse(json.dumps([empty, full, empty]).encode())] == ["Full"]
    with pytest.raises(Problem, match="contains no messages"):
        parse(json.dumps([empty]).encode())


def test_an_absurd_time_is_none(store):
    for time in (-1, 0, 1e300, "yesterday", [], True, 10**400, "9999-12-31T23:59:59.999"):
        mapping = {"a": node(None, "user", "x", create_time=time)}
        chat = one(export(mapping, create_time=time, update_time=time))
        assert chat.created is chat.updated is chat.entries[0].created is None
        (added,) = store.add([chat]).result()
        assert added in store.conversations().result()
