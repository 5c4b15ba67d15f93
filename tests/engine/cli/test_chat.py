"""A chat in the terminal: what commands do, and that neither errors nor Ctrl-C end it."""

import json
import resource
import shutil
import signal
from pathlib import Path
from unittest import mock

import pytest
from rich.console import Console

from engine.cli.chat import TerminalChat, save
from engine.cli.sessions import show_remarks
from engine.conversation.loading import load
from engine.conversation.session import Session
from engine.draft_length.policy import Automatic
from engine.events import Done, Draft, Prefill, Stats, Text, Verdict
from engine.request import ChatMessage, Request, Sampling, chat
from engine.stretches import Stretch
from models.errors import Problem
from models.in_words import clean
from models.model_folder import ModelFolder
from tests.support.engine import tiny
from tests.support.engine.ended import change_json
from tests.support.engine.terminal import Table

# Refuses what the templates of some well-known models refuse.
STRICT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}"
    "{% endif %}"
    "<{{ message['role'] }}>{{ message['content'] }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny.write_folder("llama", folder, layers=2)
    return folder


@pytest.fixture(scope="module")
def target(folder):
    return load(ModelFolder(folder))


@pytest.fixture
def table(target):
    return Table(target, drafter="lookup")


# Answers


def test_an_answer_is_shown_and_kept(table, target):
    printed = table.say("  hello  ")
    events = list(Session(target).answer([ChatMessage("user", "hello")], Request(max_tokens=12)))
    answer = "".join(event.delta for event in events if isinstance(event, Text))
    assert answer
    assert table.messages == [ChatMessage("user", "hello"), ChatMessage("assistant", answer)]
    for part in (clean(answer) + "\n", "tokens/s", "The drafter's tokens", "/help"):
        assert part in printed


def test_reasoning_is_kept_apart_from_the_answer(table, monkeypatch, tmp_path):
    stretches = (Stretch("reasoning", 3), Stretch("mark", 8), Stretch("content", 5))
    events = [Text("", "Hm.</think>Four.", stretches=stretches), Done("", "stop", Stats())]
    monkeypatch.setattr(table.session, "answer", lambda *asked, **options: iter(events))
    assert "Thinking: Hm.\n\nFour.\n" in table.say("hello", f"/save {tmp_path / 'chat.json'}")
    assert table.messages[-1] == ChatMessage("assistant", "Four.", reasoning="Hm.")
    (_, answer) = json.loads((tmp_path / "chat.json").read_text())["messages"]
    assert (answer["content"], answer["reasoning_content"]) == ("Four.", "Hm.")


# Commands


def test_lines_that_ask_nothing(table):
    printed = table.say("/help")
    for command in ("regenerate", "drafter", "draft-length", "system", "attach", "save", "quit"):
        assert f"/{command}" in printed
    lines = ["/nonsense", "/HELP", "/quit now", "/", "/save\tx.md"]
    assert table.say(*lines, "", "  ", "\t").count("Unknown command:") == len(lines)
    assert "/quit leaves" in table.say(KeyboardInterrupt, "/quit", "hello")
    assert table.messages == []
    assert table.session.answers == []


def test_regenerate_keeps_one_copy_and_draws_another_when_sampling(table, target):
    table.say("hello", "more")
    before = list(table.messages)
    table.say("/regenerate", "/regenerate")
    assert table.messages == before, "greedy decoding gives the same answer again"
    assert len(table.session.answers) == 4
    assert table.done.stats.prompt_tokens == len(table.session.encode(chat(before[:3])))
    table = Table(target, request=Request(sampling=Sampling(temperature=1.0), max_tokens=12))
    answers = set()
    for line in ("hello", "/regenerate", "/regenerate"):
        table.say(line)
        assert table.roles == ["user", "assistant"]
        answers.add(table.messages[-1].content)
    assert len(answers) > 1


def test_another_drafter_and_draft_length(table, monkeypatch, capsys):
    table.say("hello")
    before = list(table.messages)
    for name, length in (("none", 0), ("early-exit:1", 2)):
        printed = table.say(f"/drafter {name}", f"/draft-length {length}", "/regenerate")
        assert f" {name}.\n" in printed
        assert f" {length}.\n" in printed
        assert table.messages == before
        drafts = [event for event in table.session.answers[-1] if isinstance(event, Draft)]
        assert {draft.drafter for draft in drafts} == ({"early-exit"} if length else set())
        assert max((len(draft.tokens) for draft in drafts), default=0) == length
    table.say("/draft-length auto")
    assert isinstance(table.session.policy, Automatic)
    remark = "Ignored: top_p '[/b]', [bold]"
    monkeypatch.setattr(table.session, "draft", lambda **_: remark)
    assert remark in table.say("/drafter none")
    show_remarks(remark)
    assert capsys.readouterr().err == f"{remark}\n"


def test_system_begins_anew(table):
    table.say("hello")
    table.say("/system  be nice ", "/regenerate")
    assert table.messages == [ChatMessage("system", "be nice")]
    assert len(table.session.answers) == 1, "there is no message whose answer could be another"
    table.say("hello")
    assert table.roles == ["system", "user", "assistant"]
    table.say("/system", "/regenerate")
    assert table.messages == []


# Saving


def test_a_chat_is_saved_whole_or_not_at_all(table, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "a chat.json"
    assert str(path) in table.say("grüße\u2028[bold]", f'/save "~/{path.name}"')
    saved = json.loads(path.read_text(encoding="utf-8"))
    assert saved == {"messages": [{"role": m.role, "content": m.content} for m in table.messages]}
    assert saved["messages"][0]["content"] == "grüße\u2028[bold]"
    messages = [
        ChatMessage("user", "# hello"),
        ChatMessage("assistant", "1. one\n2. two"),
        ChatMessage("assistant", "Four.", reasoning="Hm."),
    ]
    save(messages, tmp_path / "chat.md")
    assert (tmp_path / "chat.md").read_text(encoding="utf-8") == (
        "**user**\n\n# hello\n\n**assistant**\n\n1. one\n2. two\n\n**assistant**\n\n"
        "<details>\n<summary>Thinking</summary>\n\nHm.\n\n</details>\n\nFour.\n"
    )
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
        with pytest.raises(Problem):
            save(messages, tmp_path / "full.md")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert not (tmp_path / "full.md").exists()


def test_save_to_no_file(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("chat.md").write_text("precious")
    table.say("hello")
    for name, word in (
        ("chat.md", "exists"),
        *((name, ".json") for name in ("", "chat", "chat.txt")),
        *((name, "written") for name in ("no/such/folder/chat.md", "x" * 300 + ".md")),
        *((name, "names") for name in ("a\0b.md", "~no-such-user/chat.md")),
    ):
        assert word in table.say(f"/save {name}"), name
    table.say("more")
    assert table.roles == ["user", "assistant"] * 2
    assert [path.read_text() for path in tmp_path.iterdir()] == ["precious"]


def test_two_chats_that_are_saved_at_once_do_not_replace_each_other(tmp_path, monkeypatch):
    path, write, refused = tmp_path / "chat.md", Path.write_bytes, []

    def during_another(partial, data):
        monkeypatch.undo()
        try:
            save([ChatMessage("user", "theirs")], path)
        except Problem as problem:
            refused.append(problem)
        return write(partial, data)

    monkeypatch.setattr(Path, "write_bytes", during_another)
    save([ChatMessage("user", "ours")], path)
    assert len(refused) == 1
    assert "ours" in path.read_text()


# Errors


def test_an_error_keeps_the_conversation(table):
    drafter = table.session.drafter
    table.say("hello")
    before = list(table.messages)
    for line in (
        "/drafter",
        "/drafter nonsense",
        "/drafter early-exit:99",
        "/drafter ./" + "x" * 300,
        "/attach ~no-such-user/f",
        "/attach " + "Lorem ipsum, dolor. " * 200,
        "/attach a\0b",
        "/attach \ud800",
        "/image " + "x" * 300,
        "/draft-length 17",
        "/draft-length -1",
        "caf\udce9",  # what Python makes of a line that is not UTF-8
    ):
        printed = table.say(line)
        assert "Traceback" not in printed, line
        assert "tokens/s" not in printed, line
        assert len(printed) < 1_200, line  # the legend, and one line that does not repeat all of it
        assert table.messages == before, line
        assert table.session.drafter is drafter, line
    table.say("more")
    table.attachments.close()
    assert table.messages[:2] == before
    assert table.roles == ["user", "assistant"] * 2


def test_a_conversation_that_is_full_can_be_saved_and_left(folder, tmp_path):
    table = Table(strict(folder, tmp_path, context=64), system="be nice")
    assert " 64." in table.say(*["hello"] * 6)
    assert table.roles == ["system", *["user", "assistant"] * (len(table.roles) // 2)]
    table.say(f"/save {tmp_path / 'chat.md'}", "/system", "hello")
    assert (tmp_path / "chat.md").exists()
    assert table.roles == ["user", "assistant"]


def strict(folder, to, *, context=4096):
    """The model of `folder` with a strict template, and perhaps another context length."""
    copied = Path(shutil.copytree(folder, to / "model"))
    change_json(copied / "config.json", max_position_embeddings=context)
    change_json(copied / "tokenizer_config.json", chat_template=STRICT_TEMPLATE)
    return load(ModelFolder(copied))


# Ctrl-C


def test_a_key_ends_the_thinking(folder):
    target = load(ModelFolder(folder))
    opening = "{% if add_generation_prompt %}<think>{# </think> #}{% endif %}"
    target.tokenizer.chat_template += opening
    table = Table(target, request=Request(max_tokens=40))
    table.session.press = lambda event: isinstance(event, Verdict)
    table.session.signal = signal.SIGQUIT
    table.say("hello")
    answer = table.chat.messages[-1]
    assert answer.reasoning
    assert answer.content
    assert table.done.reason == "length"


def test_an_interrupt_stops_the_answer_and_keeps_what_was_written(table):
    table.say("hello")
    whole = table.messages[1].content
    table.say("/system")
    table.session.press = lambda event: isinstance(event, Text)
    printed = table.say("hello")
    assert table.done.reason == "cancelled"
    assert table.roles == ["user", "assistant"]
    kept = table.messages[1].content
    assert 0 < len(kept) < len(whole)
    assert whole.startswith(kept.rstrip("\ufffd"))
    assert "tokens/s" in printed

    before = list(table.messages)
    table.session.press = lambda event: isinstance(event, Prefill)
    table.say("/regenerate")
    assert table.messages == before
    for interrupted, name, line in (
        (table.session, "draft", "/drafter none"),
        (table.attachments, "write", "more"),
    ):
        with mock.patch.object(interrupted, name, side_effect=KeyboardInterrupt):
            table.say(line)
        assert table.messages == before, name
    table.session.press = lambda event: False
    table.say("/regenerate")
    assert table.messages == [ChatMessage("user", "hello"), ChatMessage("assistant", whole)]
    table.say("more")
    assert table.roles == ["user", "assistant"] * 2


@pytest.mark.parametrize("kind", [Prefill, Verdict, Done])
def test_an_interrupt_at_any_time_leaves_a_conversation(kind, folder, tmp_path):
    table = Table(strict(folder, tmp_path))
    table.session.press = lambda event: isinstance(event, kind)
    table.say("hello")
    assert table.roles == ([] if kind is Prefill else ["user", "assistant"])
    table.session.press = lambda event: False
    table.say("more")
    assert "tokens/s" in table.file.getvalue()
    assert table.done.reason in ("length", "stop"), "the next turn works"
    assert table.roles == ["user", "assistant"] * (len(table.roles) // 2)
    assert table.messages[-2] == ChatMessage("user", "more")


def test_an_empty_answer_leaves_a_conversation(folder, tmp_path):
    table = Table(strict(folder, tmp_path))
    table.say("hello")
    request = Request(max_tokens=12, stops=(table.messages[1].content[0],))
    console = Console(file=table.file, width=200)
    table.chat = TerminalChat(table.session, console, request, table.attachments)
    table.say("hello")
    assert table.done.reason == "stop"
    assert not any(event.delta for event in table.session.answers[-1] if isinstance(event, Text))
    assert "alternate" not in table.say("more")
    assert table.roles == ["user", "assistant"] * (len(table.roles) // 2)
