"""Export and import: what goes out comes back, alone and with many in one file; OpenAI's JSON is
understood; a text in a Markdown file loads nothing, swallows nothing, and has lower headings."""

import json
import zipfile
from datetime import UTC, datetime
from sqlite3 import IntegrityError

import pytest
from markdown_it import MarkdownIt

from app.conversations.chat_archive import ChatArchive
from app.conversations.exchange import parse, read_chats, to_json, to_markdown
from app.conversations.markdown_part import part
from app.conversations.records import Entry, ExportedChat
from app.conversations.store import Store
from engine.request import Request, Sampling
from models.errors import Problem
from tests.support.app.store_samples import answered, asked, contents, zipped

EARLY, LATE = datetime(1971, 1, 1, tzinfo=UTC), datetime(2099, 12, 31, 1, 2, 3, 4000, UTC)
OURS = (
    ExportedChat("", (Entry(None, "user", ""),)),
    ExportedChat(
        'A "title" \u202e\n',
        (
            Entry(None, "system", "<b>\0</b>", created=EARLY),
            Entry(0, "user", "One\r\n?\u2028", "interrupted"),
            Entry(1, "assistant", "😀 ```", "length", "Qwen3", "lookup", LATE),
            Entry(1, "assistant", " # no", "failed", drafter="d", edited=True),
            Entry(None, "user", "A second beginning"),
        ),
        leaf=2,
        system_prompt="Be brief.\n",
        settings=Request(sampling=Sampling(temperature=0.5)),
        pinned=True,
        created=EARLY,
        updated=LATE,
        folder="Work / home",
        archived=True,
    ),
)


def test_our_own_json_comes_back_as_it_was():
    for chat in OURS:
        written = to_json(chat)
        assert parse(written.encode()) == (chat,)
        prompt = [{"role": "system", "content": chat.system_prompt}] if chat.system_prompt else []
        shown = [{"role": entry.role, "content": entry.content} for entry in chat.branch()]
        assert json.loads(written)["messages"] == prompt + shown, "others read the branch"


def test_a_chat_goes_out_of_a_store_and_into_another(store, tmp_path):
    question = asked(store, "One?")
    answered(store, question, "One.")
    edited = store.edit(question.id, "Uno?\ud83d").result()
    store.begin_answer(edited.id, target="t", drafter="d").result()
    store.switch(question.id).result()
    store.pin(question.conversation, pinned=True).result()
    settings = Request(max_tokens=7)
    store.configure(question.conversation, system_prompt="Brief.", settings=settings).result()
    folder = store.make_folder("Work").result()
    store.move(question.conversation, folder=folder.id).result()
    store.archive(question.conversation, archived=True).result()
    (chat,) = store.chats([question.conversation, 99]).result()
    page = to_markdown(chat)
    assert "Qwen3 + lookup" in page
    assert "Uno?" not in page, "it is the branch that is shown"
    file = tmp_path / "chat.json"
    file.write_text(to_json(chat), encoding="utf-8")
    with Store.open(tmp_path / "other.sqlite") as other:
        (added,) = other.add(read_chats(file)).result()
        assert (added.title, added.pinned, added.system_prompt) == ("One?", True, "Brief.")
        assert (added.settings, added.archived) == (settings, True)
        assert contents(other.branch(added.id).result()) == ["One?", "One."]
        assert other.chat(added.id).result() == chat
        assert [hit.conversation for hit in other.search("uno").result()] == [added.id]
        (again,) = other.add([chat]).result()
        (folder,) = other.folders().result()
        assert (folder.name, folder.id, folder.id) == ("Work", added.folder, again.folder)


def test_an_import_is_all_or_nothing(store):
    good, bad = (
        ExportedChat(role, (Entry(parent=None, role=role, content="x"),), leaf=0)
        for role in ("user", "tool")
    )
    with pytest.raises(IntegrityError):
        store.add([good, bad]).result()
    assert store.conversations().result() == ()
    assert len(store.add([good, good]).result()) == 2


MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "image_url"}]},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
    {"role": "tool", "content": "42", "tool_call_id": "1"},
    {"role": "assistant", "content": "A cat."},
    {"role": "user", "content": [{"type": "input_text", "text": "Sure?"}]},
]


def test_openai_messages_are_read(store):
    for wrapped in (MESSAGES, {"messages": MESSAGES}, [MESSAGES]):
        (chat,) = parse(json.dumps(wrapped).encode())
        assert chat.system_prompt == "Be brief."
        assert [(entry.role, entry.content) for entry in chat.branch()] == [
            ("user", "What is\n\n[image]"),
            ("assistant", "A cat."),
            ("user", "Sure?"),
        ]
        assert len(chat.entries) == 3
    later = [*MESSAGES, {"role": "developer", "content": "Longer!"}]
    value = [{"messages": MESSAGES, "title": "Mine"}, later, {"messages": []}]
    found = parse(b"\xef\xbb\xbf" + json.dumps(value).encode())
    assert [chat.title for chat in found] == ["Mine", ""]
    assert (found[1].branch()[-1].role, found[1].branch()[-1].content) == ("system", "Longer!")
    added = store.add(found).result()
    assert [conversation.title for conversation in added] == ["Mine", "What is"]


def circle(**parents):
    """ChatGPT's messages, each with the one before it."""
    message = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["x"]}}
    tree = {name: {"parent": before, "message": message} for name, before in parents.items()}
    return json.dumps([{"mapping": tree}]).encode()


REFUSED = (  # and a word of the line
    (b"", "JSON"),
    (b"{", "JSON"),
    (b"\xff\xfe\x00", "UTF-8"),
    (b"PK\x03\x04....", "damaged"),
    (zipped({"conversations.json": " " * 99})[:-40], "damaged"),
    (zipped({"readme.txt": "x"}), ".zip"),
    (zipped({"conversations.json": "[}"}), "conversations.json"),
    (zipped({"conversations.json": "[]"}), "messages"),
    (b"[" * 10**6, "nested"),
    (b'{"a":' * 10**6, "nested"),
    (b"1" * 10**6, "number"),
    (b'{"a": 1,\n "b" 2}', "line 2 cannot be read from its character 6"),
    (b"null", "messages"),
    (b"[]", "messages"),
    (b"{}", "messages"),
    (b'[{"x": 1}]', "conversation 1"),
    # Open WebUI's and Jan's
    (b'[{"title": "P", "chat": {"messages": [{"role": "user"}]}}]', "conversation 1"),
    (b'{"object": "thread", "title": "P"}', "messages"),
    (b'{"role": "user", "content": []}\n{"role": "assistant", "content": []}\n', "line 2"),
    (b'[{"role": "user", "content": [{"type": "text", "text": {"value": ""}}]}]', "message 1"),
    (b'{"mapping": {"root": {"message": null, "parent": null}}}', "messages"),
    (circle(a="a"), "conversation 1"),
    (circle(a="c", b="a", c="b"), "circle"),
    (b'{"messages": {}}', "list"),
    (b'{"messages": [1]}', "message 1"),
    (b'[[{"role": "user", "content": "x"}, {"role": ["user"]}]]', "1: in message 2"),
    (b'[{"role": "wizard", "content": "x"}]', "message 1"),
    (b'[{"role": "user", "content": {"a": 1}}]', "content"),
    (b'{"slipstream": 2}', "newer"),
    (b'{"slipstream": 1, "tree": [{"parent": 0}]}', "message 1 of the tree"),
    (b'{"slipstream": 1, "tree": [{"role": "tool"}]}', "message 1 of the tree"),
    (b'{"slipstream": 1, "tree": [], "leaf": 0}', "leaf"),
    (b'{"mapping": []}', "mapping"),
)


def test_what_cannot_be_read_is_one_clear_line():
    for data, word in REFUSED:
        with pytest.raises(Problem) as caught:
            parse(data)
        assert word in caught.value.message, data[:99]
        for line in (caught.value.message, caught.value.remedy):
            assert 0 < len(line) < 200, word
            assert len(line.splitlines()) == 1, word


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
        with pytest.raises(Problem) as caught:
            read_chats(place)
        assert str(place) in caught.value.message
    monkeypatch.setattr("app.conversations.exchange.LARGEST_BYTES", 1 << 20)
    huge = " " * ((1 << 20) + 1)
    file = tmp_path / "huge.json"
    for data in (huge.encode(), zipped({"conversations.json": huge})):
        file.write_bytes(data)
        with pytest.raises(Problem) as caught:
            read_chats(file)
        assert "1 MB" in caught.value.message


SEVERAL = tuple(
    ExportedChat(title, (Entry(None, "user", "Why?"),), 0, folder=folder, archived=title == "old")
    for title, folder in (
        *(("Boats", ""), ("boats", ""), ("Boats", "Work / home"), ("../../etc/passwd", "")),
        *(("", ""), ("conversations", ""), ("old", "")),
    )
)


def test_all_come_back_and_each_has_a_name(tmp_path):
    path = tmp_path / "all.zip"
    archive = ChatArchive(path)
    archive.add(SEVERAL[:4])
    assert not path.exists()
    archive.add(SEVERAL[4:])
    archive.finish()
    archive.close()
    assert archive.count == len(SEVERAL)
    assert list(tmp_path.iterdir()) == [path]
    assert read_chats(path) == SEVERAL
    with zipfile.ZipFile(path) as written:
        names = [name for name in written.namelist() if name.endswith(".md")]
        assert written.read("Boats.md").decode().startswith("# Boats")
    assert names == [
        *("Boats.md", "boats 2.md", "Work home/Boats.md", "etc passwd.md", "Conversation.md"),
        *("conversations.md", "Archived/old.md"),
    ]


def test_one_that_is_not_finished_leaves_nothing(tmp_path):
    path = tmp_path / "all.zip"
    path.write_text("before")
    archive = ChatArchive(path)
    archive.add(SEVERAL)
    archive.close()
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "before"
    missing, closed = (ChatArchive(tmp_path / name) for name in ("missing/all.zip", "other.zip"))

    def some():
        yield SEVERAL[0]
        closed.close()  # as the window does that closes while a thread writes
        yield SEVERAL[1]

    for write in (
        lambda: missing.add(SEVERAL),
        lambda: closed.add(some()),
        lambda: closed.add(SEVERAL),
        closed.finish,
    ):
        with pytest.raises(Problem):
            write()
    missing.close()
    assert list(tmp_path.iterdir()) == [path]


LOADING = (
    "![x](https://e.org/p.png)",
    "a ![x][r]\n\n[r]: https://e.org/p.png",
    "![r]\n\n[r]: https://e.org/p.png",
    "![a [b] c](https://e.org/p.png)",
    "![two\nlines](https://e.org/p.png)",
    "\\`![x](https://e.org/p.png)`",
    "`\n\n![x](https://e.org/p.png)\n\n`",
    "| a |\n|---|\n| ![x](https://e.org/p.png) |",
    "> - ![x](https://e.org/p.png)",
    f"{'> ' * 30}![x](https://e.org/p.png)",
    '<img src="https://e.org/p.png">',
    "<IMG\nsrc=https://e.org/p.png>",
    "<div>\n`<img src=https://e.org/p.png>`\n</div>",
    "<picture><source srcset=https://e.org/p.png></picture>",
    "<td background=https://e.org/p.png>",
    "<span style='background: url(https://e.org/p.png)'>x</span>",
    "<svg/onload=load()>",
    "<style>@import 'https://e.org/a.css'</style>",
    "<iframe src=https://e.org></iframe>",
)


def test_nothing_is_loaded_and_every_message_keeps_its_own_heading():
    reader = MarkdownIt("commonmark", {"maxNesting": 100}).enable("table")
    for text in LOADING:
        page = reader.render(part(text)).lower()
        signs = ("<img", "<source", "<svg", "<style", "<iframe", "<td b", "<span style")
        assert [sign for sign in signs if sign in page] == [], text
    for text in ("```", "~~~~ x", "<!--", "<script>", "# Two\n```\nx"):
        answer = Entry(0, "assistant", text, target="T ![x](y)")
        said = (Entry(None, "user", text), answer, Entry(1, "user", "after"))
        written = to_markdown(ExportedChat("T ![x](y)", said, leaf=2, system_prompt=text))
        tokens = [token for token in reader.parse(written) if token.type == "heading_open"]
        levels = [token.tag for token in tokens if token.tag < "h3"]
        assert levels == ["h1", *["h2"] * 4], text
        assert "![" not in written


AS_WRITTEN = (
    ("see ![x](https://e.org/p.png)", "see [x](https://e.org/p.png)"),
    ("`![x](y)` and vec![1] <https://e.org>", "`![x](y)` and vec!\\[1] <https://e.org>"),
    ("```\n![x](y) <img>\n```", "```\n![x](y) <img>\n```"),
    ("    ![x](y) <img>", "    ![x](y) <img>"),
    ("1 < 2, <b>c</b>, <br>, <a href='https://e.org'>d</a>",) * 2,
    ("# One\n\n## Two\n###### Six", "### One\n\n#### Two\n###### Six"),
    ("One\n===\n\nTwo\n---\nx", "### One\n\n### Two\nx"),
    ("One\r===\rx", "### One\nx"),
    ("> # One", "> ### One"),
    ("```py\nopen", "```py\nopen\n```"),
    ("~~~~\n~~~\nopen\n", "~~~~\n~~~\nopen\n\n~~~~"),
    ("<details>\n\nopen", "<details>\n\nopen\n\n</details>"),
    ("<!-- open", "&lt;!-- open"),
    ("<pre>\nopen", "&lt;pre>\nopen"),
)


def test_the_rest_of_a_text_is_as_it_was_written():
    assert [(text, part(text)) for text, _ in AS_WRITTEN] == [*AS_WRITTEN]
