"""Conversations of LM Studio, Claude, Jan and Open WebUI: made as those programs write them."""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.conversations import exchange
from app.conversations.records import Entry, ExportedChat
from app.conversations.store import Store
from models.errors import Problem

MADE = datetime(2026, 5, 9, 12, 0, tzinfo=UTC)
SECONDS = int(MADE.timestamp())

LM_STUDIO: dict[str, Any] = {
    "name": "Primes",
    "pinned": True,
    "createdAt": SECONDS * 1000,
    "systemPrompt": "",
    "perChatPredictionConfig": {
        "fields": [
            {"key": "llm.prediction.temperature", "value": 0.5},
            {"key": "llm.prediction.systemPrompt", "value": "Be brief."},
        ]
    },
    "messages": [
        {
            "versions": [
                {
                    "type": "singleStep",
                    "role": "user",
                    "content": [
                        {"type": "file", "fileIdentifier": "plan.pdf", "fileType": "text"},
                        {"type": "text", "text": "Which primes?"},
                    ],
                }
            ],
            "currentlySelected": 0,
        },
        {
            "versions": [
                {
                    "type": "multiStep",
                    "role": "assistant",
                    "senderInfo": {"senderName": "qwen3-8b"},
                    "steps": [
                        {
                            "type": "contentBlock",
                            "style": {"type": "thinking", "ended": True},
                            "content": [{"type": "text", "text": "Let me see."}],
                        },
                        {
                            "type": "contentBlock",
                            "content": [
                                {"type": "text", "text": "2 and "},
                                {"type": "text", "text": "3."},
                            ],
                            "genInfo": {"stats": {"stopReason": "eosFound"}},
                        },
                        {"type": "debugInfoBlock", "debugInfo": "noise"},
                    ],
                },
                {
                    "type": "multiStep",
                    "role": "assistant",
                    "steps": [
                        {
                            "type": "contentBlock",
                            "content": [{"type": "text", "text": "Two"}],
                            "genInfo": {
                                "identifier": "llama",
                                "stats": {"stopReason": "userStopped"},
                            },
                        }
                    ],
                },
            ],
            "currentlySelected": 0,
        },
        {
            "versions": [
                {
                    "type": "singleStep",
                    "role": "user",
                    "content": [{"type": "text", "text": "Thanks."}],
                }
            ],
            "currentlySelected": 0,
        },
    ],
}
ROOT = "00000000-0000-4000-8000-000000000000"
CLAUDE: dict[str, Any] = {
    "uuid": "c",
    "name": "Primes",
    "created_at": "2026-05-09T12:00:00.000000Z",
    "updated_at": "2026-05-09T12:00:00.000000Z",
    "chat_messages": [
        {
            "uuid": "1",
            "sender": "human",
            "text": "Which primes?",
            "content": [{"type": "text", "text": "Which primes?"}],
            "attachments": [{"file_name": "plan.txt", "extracted_content": "The plan."}],
            "files": [{"file_name": "photo.png"}],
            "created_at": "2026-05-09T12:00:00.000000Z",
            "parent_message_uuid": ROOT,
        },
        {
            "uuid": "2",
            "sender": "assistant",
            "text": "",
            "content": [
                {"type": "thinking", "thinking": "Let me see."},
                {"type": "tool_use", "name": "repl", "input": {}},
                {"type": "tool_result", "content": [{"type": "text", "text": "noise"}]},
                {"type": "text", "text": "2 and 3."},
            ],
            "parent_message_uuid": "1",
        },
        {"uuid": "3", "sender": "assistant", "text": "Two", "parent_message_uuid": "1"},
        {"uuid": "4", "sender": "human", "text": "Thanks.", "parent_message_uuid": "2"},
    ],
}
WEB_UI: dict[str, Any] = {
    "id": "w",
    "title": "Primes",
    "pinned": True,
    "archived": False,
    "created_at": SECONDS,
    "updated_at": SECONDS,
    "chat": {
        "title": "Primes",
        "models": ["qwen3:8b"],
        "params": {"system": "Be brief."},
        "history": {
            "currentId": "d",
            "messages": {
                "a": {
                    "id": "a",
                    "parentId": None,
                    "childrenIds": ["b", "c"],
                    "role": "user",
                    "content": "Which primes?",
                    "timestamp": SECONDS,
                    "files": [{"type": "file", "name": "plan.pdf"}],
                },
                "b": {
                    "id": "b",
                    "parentId": "a",
                    "childrenIds": ["d"],
                    "role": "assistant",
                    "model": "qwen3:8b",
                    "content": '<details type="reasoning" done="true" duration="3">\n'
                    "<summary>Thought for 3 seconds</summary>\n&gt; Let me see.\n</details>\n"
                    '<details type="tool_calls" done="true">noise</details>\n2 and 3.',
                    "done": True,
                },
                "c": {
                    "id": "c",
                    "parentId": "a",
                    "childrenIds": [],
                    "role": "assistant",
                    "model": "llama",
                    "content": "Two",
                    "done": False,
                },
                "d": {
                    "id": "d",
                    "parentId": "b",
                    "childrenIds": [],
                    "role": "user",
                    "content": "Thanks.",
                },
            },
        },
    },
}
JAN: dict[str, Any] = {
    "id": "t",
    "object": "thread",
    "title": "Primes",
    "assistants": [{"instructions": "Be brief.", "model": {"id": "qwen3-8b"}}],
    "created": SECONDS,
    "updated": SECONDS,
}
JAN_MESSAGES: list[dict[str, Any]] = [
    {
        "object": "thread.message",
        "role": "assistant",
        "content": [
            {"type": "reasoning", "text": {"value": "Let me see.", "annotations": []}},
            {"type": "tool_call", "tool_name": "x", "output": "noise"},
            {"type": "text", "text": {"value": "2 and 3.", "annotations": []}},
        ],
        "status": "stopped",
        "created_at": SECONDS + 1,
    },
    {
        "object": "thread.message",
        "role": "user",
        "content": [
            {"type": "text", "text": {"value": "Which primes?", "annotations": []}},
            {"type": "image_url", "image_url": {"url": "data:"}},
        ],
        "status": "ready",
        "created_at": SECONDS,
    },
]
THOUGHT = "<think>\nLet me see.\n</think>\n\n2 and 3."


def parsed(value: Any) -> ExportedChat:
    (chat,) = exchange.parse(json.dumps(value).encode())
    return chat


def zipped(files: dict[str, str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()


def lines(values: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def test_lm_studio(tmp_path: Path) -> None:
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


def test_claude() -> None:
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


def test_open_webui() -> None:
    chat = parsed([WEB_UI])
    assert (chat.title, chat.system_prompt, chat.pinned) == ("Primes", "Be brief.", True)
    assert (chat.created, chat.archived) == (MADE, False)
    assert chat.entries == (
        Entry(None, "user", "[file: plan.pdf]\n\nWhich primes?", created=MADE),
        Entry(0, "assistant", THOUGHT, target="qwen3:8b"),
        Entry(0, "assistant", "Two", "interrupted", "llama"),
        Entry(1, "user", "Thanks."),
    )
    assert chat.leaf == 3


def test_jan(tmp_path: Path) -> None:
    folder = tmp_path / "threads" / "t"
    folder.mkdir(parents=True)
    (folder / "thread.json").write_text(json.dumps(JAN))
    (folder / "messages.jsonl").write_text(lines(JAN_MESSAGES))
    (chat,) = exchange.read_chats(folder / "thread.json")
    assert (chat.title, chat.system_prompt, chat.created) == ("Primes", "Be brief.", MADE)
    assert [(e.parent, e.role, e.content, e.state, e.target) for e in chat.entries] == [
        (None, "user", "Which primes?\n\n[file: image]", "complete", ""),
        (0, "assistant", THOUGHT, "cancelled", "qwen3-8b"),
    ]
    assert exchange.read_chats(folder / "messages.jsonl") == (chat,)
    alone = tmp_path / "alone.jsonl"
    alone.write_text(lines(JAN_MESSAGES))
    assert [e.content for e in exchange.read_chats(alone)[0].entries] == [
        entry.content for entry in chat.entries
    ]
    two = {
        f"threads/{name}/{file}": text
        for name in "ab"
        for file, text in (
            ("thread.json", json.dumps(JAN)),
            ("messages.jsonl", lines(JAN_MESSAGES)),
        )
    }
    assert exchange.parse(zipped(two)) == (chat, chat)


def test_what_was_imported_survives_our_own_export(store: Store) -> None:
    for value in (LM_STUDIO, [CLAUDE], [WEB_UI]):
        (record,) = store.add([parsed(value)]).result()
        stored = store.chat(record.id).result()
        (again,) = exchange.parse(exchange.to_json(stored).encode())
        assert again == stored
        assert again.entries == tuple(
            Entry(e.parent, e.role, e.content, e.state, e.target, created=again.entries[n].created)
            for n, e in enumerate(parsed(value).entries)
        )


def spoilt(value: Any) -> Iterator[Any]:
    """The value with each part of it replaced by what does not belong there."""

    def places(part: Any, way: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        yield way
        keys = part if isinstance(part, dict) else range(len(part)) if type(part) is list else ()
        for key in keys:
            yield from places(part[key], (*way, key))

    for way in places(value, ()):
        for odd in (None, 1, "odd", [], {}, [[]], True, -1e99):
            copy = deepcopy(value)
            inner = copy
            for key in way[:-1]:
                inner = inner[key]
            if way:
                inner[way[-1]] = odd
            yield copy


def refusal(read: Callable[[], object]) -> str:
    """Why something is refused; empty if it is read."""
    try:
        read()
    except Problem as problem:
        return str(problem)
    return ""


@pytest.mark.parametrize("value", [LM_STUDIO, [CLAUDE], [WEB_UI]])
def test_damaged_files_give_what_is_whole_or_one_clear_line(value: Any) -> None:
    for damaged in spoilt(value):
        data = json.dumps(damaged).encode()
        assert "\n" not in refusal(lambda data=data: exchange.parse(data))


def test_a_damaged_thread_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    for damaged in spoilt(JAN_MESSAGES):
        path.write_text(lines(damaged) if isinstance(damaged, list) else "{}")
        assert "\n" not in refusal(lambda: exchange.read_chats(path))
    for text in ("{", "", "[1]", '{"object": "thread.message"}\nnot json'):
        path.write_text(text)
        assert refusal(lambda: exchange.read_chats(path))
