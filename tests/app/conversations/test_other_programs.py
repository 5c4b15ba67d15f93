"""Conversations of LM Studio and Claude: made as those programs write them."""

import io
import json
import zipfile
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.conversations import exchange
from app.conversations.records import (
    Entry,
    ExportedChat,
    settings_from_json,
    settings_to_json,
)
from engine.request import Request, Sampling
from models.errors import Problem

MADE = datetime(2026, 5, 9, 12, 0, tzinfo=UTC)

DATA = Path(__file__).parents[1] / "data"
LM_STUDIO = json.loads((DATA / "lm_studio.json").read_text(encoding="utf-8"))
CLAUDE = json.loads((DATA / "claude.json").read_text(encoding="utf-8"))
UNKNOWN = {  # as Open WebUI and Jan write them
    "web.json": json.dumps(
        [{"title": "Primes", "chat": {"history": {"messages": {}}, "messages": [{"role": "user"}]}}]
    ),
    "thread.json": '{"id": "t", "object": "thread", "title": "Primes"}',
    "messages.jsonl": '{"role": "user", "content": []}\n{"role": "assistant", "content": []}\n',
    "messages.json": '[{"role": "user", "content": [{"type": "text", "text": {"value": "Hi"}}]}]',
}
THOUGHT = "<think>\nLet me see.\n</think>\n\n2 and 3."


def parsed(value):
    (chat,) = exchange.parse(json.dumps(value).encode())
    return chat


def zipped(files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()


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


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_other_programs_write_is_refused_in_one_line(tmp_path, name):
    path = tmp_path / name
    path.write_text(UNKNOWN[name])
    for read in (lambda: exchange.read_chats(path), lambda: exchange.parse(zipped(UNKNOWN))):
        said = refusal(read)
        assert "Choose an export of" in said
        assert "\n" not in said


def spoilt(value):
    """The value with each part of it replaced by what does not belong there."""

    def places(part, way):
        yield way
        keys = part if isinstance(part, dict) else range(len(part)) if type(part) is list else ()
        for key in keys:
            yield from places(part[key], (*way, key))

    for way in places(value, ()):
        for odd in (None, "odd", {}, [[]], -1e99):
            copy = deepcopy(value)
            inner = copy
            for key in way[:-1]:
                inner = inner[key]
            if way:
                inner[way[-1]] = odd
            yield copy


def refusal(read):
    """Why something is refused; empty if it is read."""
    try:
        read()
    except Problem as problem:
        return str(problem)
    return ""


def said_by(role, text, **more):
    return {"author": {"role": role}, "content": {"content_type": "text", "parts": [text]}, **more}


MORE = {
    "attachments": [{"name": "a.pdf"}],
    "content_references": [{"matched_text": "W", "alt": "w"}],
}
CHATGPT = {
    "title": "Primes",
    "current_node": "b",
    "create_time": 1.7e9,
    "mapping": {
        "a": {"parent": None, "message": said_by("user", "Which?", recipient="all", metadata=MORE)},
        "b": {"parent": "a", "message": said_by("assistant", "Two", create_time=1.7e9)},
    },
}
SETTINGS = settings_to_json(Request(sampling=Sampling(temperature=0.5), stops=("x",)))
OURS = json.loads(
    exchange.to_json(
        ExportedChat(
            "Primes",
            (Entry(None, "user", "Which?", created=MADE), Entry(0, "assistant", "Two", "length")),
            leaf=1,
            settings=settings_from_json(SETTINGS),
            updated=MADE,
        )
    )
)
OPENAI = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Which?"}]}]}


@pytest.mark.parametrize("value", [LM_STUDIO, [CLAUDE], [CHATGPT], OURS, OPENAI])
def test_damaged_files_give_what_is_whole_or_one_clear_line(value):
    assert exchange.parse(json.dumps(value).encode())
    for damaged in spoilt(value):
        data = json.dumps(damaged).encode()
        if said := refusal(lambda data=data: exchange.parse(data)):
            assert "\n" not in said
            continue
        for chat in exchange.parse(data):
            assert exchange.parse(exchange.to_json(chat).encode()) == (chat,)
            assert exchange.to_markdown(chat)
