"""A chat in the terminal: what commands do, and that neither errors nor Ctrl-C end it."""

import json
import resource
import shutil
import signal
from contextlib import closing
from io import StringIO
from pathlib import Path
from unittest import mock

import pytest
from filelock import FileLock
from rich.console import Console

from engine.cli.attaching import Attachments, read_attached
from engine.cli.chat import TerminalChat, save, typed_path
from engine.cli.sessions import show_remarks
from engine.conversation import kept_blocks
from engine.conversation.kept_blocks import KeptBlocks, kept_blocks_folder
from engine.conversation.loading import load
from engine.conversation.pair import make_policy
from engine.conversation.session import Session
from engine.documents import Document, Section
from engine.documents.reading import Cancelled
from engine.draft_length.policy import Automatic, Fixed
from engine.events import Done, Draft, Prefill, Stats, Text, Verdict
from engine.request import ChatMessage, Request, Sampling, chat
from engine.stretches import Stretch
from models.errors import Problem
from models.in_words import clean
from models.model_folder import ModelFolder
from tests.support.engine import tiny
from tests.support.engine.ended import assert_refused, change_json
from tests.support.engine.helpers import Scripted
from tests.support.engine.pictures import VOCABULARY, picture, said, seeing, seeing_tokenizer
from tests.support.engine.sessions import loaded
from tests.support.engine.tiny import shallow

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


SHORT = Request(max_tokens=12)


class Watched(Session):
    """Answers in this process as a `ChildSession` does. Keeps its events, and presses a key after
    those that `press` picks: Ctrl-C, if the signal is not another."""

    def __init__(self, target, **options):
        super().__init__(target, policy=Fixed(3), **options)
        self.context_length = target.context_length
        self.answers = []
        self.press = lambda event: False
        self.signal = signal.SIGINT

    def answer(self, messages, *args, **options):
        events = super().answer(messages, *args, **options)
        self.answers.append([])
        return self._watch(events)

    def count(self, messages):
        return len(self.encode(chat(messages)))

    def count_text(self, text):
        return len(self.target.tokenizer.encode(text, add_special_tokens=False, verbose=False))

    def keep(self, cancelled):
        return ()

    def draft(self, *, drafter=None, draft_length=None):
        if drafter is not None:
            self.use_drafter(drafter)
        if draft_length is not None:
            self.policy = make_policy(draft_length)
        return " ".join(remark.value for remark in self.calibrate())

    def _watch(self, events):
        for event in events:
            self.answers[-1].append(event)
            if self.press(event):
                signal.raise_signal(self.signal)
            yield event


class Table:
    """A chat, its session and all that it printed.

    `files`: what `/attach` and `/image` read, by name, instead of the disk.
    """

    def __init__(self, target, *, system="", request=SHORT, files=None, **options):
        self.session = Watched(target, **options)
        session = self.session
        self.file = StringIO()
        self.files = files or {}
        console = Console(file=self.file, width=200)
        self.attachments = Attachments(session, console)
        readers = {} if files is None else {"read": self._read, "see": self._read}
        self.chat = TerminalChat(
            session, console, request, self.attachments, system=system, **readers
        )

    def _read(self, path, *_, **options):
        if path.name not in self.files:
            raise Problem(f"{path.name} was not found.", "Look for it.")
        return self.files[path.name]

    def say(self, *lines):
        """Run the chat on these lines, then the end of the input; returns what it printed."""
        place, rest = self.file.tell(), iter(lines)

        def read():
            line = next(rest, EOFError)
            if isinstance(line, str):
                return line
            raise line

        handler = signal.getsignal(signal.SIGINT)
        self.chat.run(read)
        assert signal.getsignal(signal.SIGINT) is handler
        self.file.seek(place)
        printed = self.file.read()
        assert "\x1b" not in printed
        return printed

    @property
    def messages(self):
        return self.chat.messages

    @property
    def roles(self):
        return [message.role for message in self.messages]

    @property
    def done(self):
        """The end of the last answer."""
        done = self.session.answers[-1][-1]
        assert isinstance(done, Done)
        return done

    @property
    def asked(self):
        """The user's messages, as the model got them."""
        return [message for message in self.messages if message.role == "user"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny.write_folder("llama", folder, layers=2)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return load(ModelFolder(folder))


@pytest.fixture
def table(model):
    return Table(model, drafter="lookup")


# Answers


def test_an_answer_is_shown_and_kept(table, model):
    printed = table.say("  hello  ")
    events = list(Session(model).answer([ChatMessage("user", "hello")], Request(max_tokens=12)))
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


def test_regenerate_keeps_one_copy_and_draws_another_when_sampling(table, model):
    table.say("hello", "more")
    before = list(table.messages)
    table.say("/regenerate", "/regenerate")
    assert table.messages == before, "greedy decoding gives the same answer again"
    assert len(table.session.answers) == 4
    assert table.done.stats.prompt_tokens == len(table.session.encode(chat(before[:3])))
    table = Table(model, request=Request(sampling=Sampling(temperature=1.0), max_tokens=12))
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


# Errors


def test_an_error_keeps_the_conversation(table):
    drafter = table.session.drafter
    table.say("hello")
    before = list(table.messages)
    for line in (
        "/drafter",
        *(f"/{each}" for each in ("attach", "attachments 3", "attachments x", "passages", "image")),
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


SUBJECTS = ("apples", "bridges", "candles", "dragons", "engines", "forests", "guitars", "hammers")


def made(name, subjects, words):
    texts = [f"About {subject}. " + "a " * words for subject in subjects]
    sections = tuple(Section("page", i, text.strip()) for i, text in enumerate(texts, start=1))
    return Document(name, "pdf", name, sections)


NOTE = made("note.pdf", ["zebras"], 20)
LONG = made("long.pdf", SUBJECTS, 215)  # 3,600 bytes, which are tokens here
ATTACHED = {document.name: document for document in (NOTE, LONG)}
ANSWERS = [ord("j") + place % 7 for place in range(9000)]  # no letter of a document's words


@pytest.fixture
def desk(tokenizer):
    """Of a target that reads thousands of tokens in no time: what it writes depends on none."""
    desk = Table(loaded(Scripted(ANSWERS), tokenizer), files=ATTACHED)
    yield desk
    desk.attachments.close()


def subjects_of(message):
    """Those of the documents in a message."""
    return {subject for subject in SUBJECTS if f"About {subject}" in message.content}


def test_a_file_goes_with_the_next_message_and_stays_there(desk):
    desk.session.press = lambda event: isinstance(event, Prefill)
    desk.say("/attach note.pdf", "Why?")
    assert desk.chat.messages == []
    desk.session.press = lambda event: False
    assert "1. note.pdf, 1 page, attached to the next message" in desk.say("/attachments")
    desk.say("Why?", "And then?")
    assert NOTE.text in desk.asked[0].content
    assert desk.asked[0].content.endswith("Why?")
    assert desk.asked[1].content == "And then?"
    desk.say("/system be nice", "Why?")
    assert NOTE.text in desk.asked[0].content


def test_of_a_long_file_each_question_gets_its_passages(desk):
    assert "only passages" not in desk.say("/attach note.pdf", "Summarize it")
    desk.say("/system")
    printed = desk.say("/attach long.pdf", "Tell me of dragons")
    for part in ("3 passages of 8", ": dragons", " to read", "only passages of long.pdf"):
        assert part in printed
    assert subjects_of(desk.asked[0]) >= {"dragons"}
    assert "guitars" not in subjects_of(desk.asked[0])
    before = list(desk.chat.messages)
    desk.say("/regenerate")
    assert desk.chat.messages == before
    assert "only passages" not in desk.say("Tell me of guitars")
    assert desk.chat.messages[:2] == before
    assert "guitars" in subjects_of(desk.asked[1])
    assert "dragons" not in subjects_of(desk.asked[1])
    listed = desk.say("/attachments")
    for line in ("1. note.pdf, 1 page, whole", "2. long.pdf, 8 pages, "):
        assert line in listed
    shown = desk.say("/attachments 2")
    assert "About dragons" in shown
    assert "About bridges" not in shown
    desk.say("/system", "/passages Tell me of dragons")
    assert "dragons" in subjects_of(desk.asked[0]) < {*SUBJECTS}


def test_a_file_that_is_not_read_any_more_is_given_again(tokenizer):
    target = loaded(Scripted(ANSWERS), tokenizer, context=1500)
    files = {"note.pdf": made("note.pdf", ["zebras"], 150)}
    desk = Table(target, request=Request(max_tokens=12, overflow="rolling"), files=files)
    desk.say("/attach note.pdf", "Why?", "a " * 280)
    assert "left out" in desk.say("b " * 300)
    desk.say("And zebras?")
    assert "About zebras" in desk.asked[-1].content
    desk.attachments.close()


def test_of_a_file_that_is_slow_to_read_passages_are_offered(tokenizer):
    file = StringIO()
    session = Watched(loaded(Scripted(ANSWERS), tokenizer))
    with closing(Attachments(session, Console(file=file, width=200), [LONG])) as attachments:

        def written(**options):
            request = Request(max_tokens=12)
            return attachments.write(
                "Tell me of dragons", request, before=[], more=False, **options
            )

        written()
        assert "to read" not in file.getvalue()
        from_disk = Prefill("", 500, 1500, 500, 9.0)
        attachments.learn([from_disk, Prefill("", 1500, 1500, 500, 19.0)])
        assert subjects_of(written()) == {*SUBJECTS}
        for part in ("whole, ", "about 35 s to read", "--passages", ": about 20 s"):
            assert part in file.getvalue()
        assert "dragons" in subjects_of(written(passages=True)) < {*SUBJECTS}


def test_what_was_copied_is_told(tokenizer):
    file = StringIO()
    session = Session(loaded(Scripted(ANSWERS), tokenizer))
    attachments = Attachments(session, Console(file=file, width=200), [NOTE, LONG])
    attachments.show_copied("It says nothing of the kind.")
    assert file.getvalue() == ""
    attachments.show_copied("About zebras. a a a a a a a a")
    assert "100 % word for word: note.pdf" in file.getvalue()


def test_what_nobody_sees_in_a_file_is_told_and_reading_can_be_interrupted():
    console = Console(file=StringIO(), width=200)
    scanned = Document("scan.pdf", "pdf", "0", (Section("page", 1, "a"),), without_text=(2, 3))
    assert read_attached(Path("scan.pdf"), console, lambda path, **_: scanned) is scanned
    assert "scan.pdf: 2 of 3 pages have no text: 2, 3." in console.file.getvalue()

    def read(path, *, cancelled, progress):
        assert not cancelled()
        signal.raise_signal(signal.SIGINT)
        assert cancelled()
        raise Cancelled

    with pytest.raises(Problem):
        read_attached(Path("a.pdf"), console, read)


def test_a_path_as_terminals_drop_it(tmp_path):
    file = tmp_path / "my file's.txt"
    file.touch()
    escaped = str(file).replace(" ", r"\ ").replace("'", r"\'")
    for text in (str(file), escaped, f'"{file}"'):
        assert typed_path(text) == file
    assert typed_path('no "such') == Path('no "such')


# Pictures


def shown(desk):
    return [message.pictures for message in desk.asked]


@pytest.fixture
def pictures(tmp_path):
    return [picture(tmp_path, number) for number in range(2)]


def test_a_picture_goes_with_the_next_message_that_is_shown(pictures, tmp_path):
    tokenizer = seeing_tokenizer(tmp_path / "tokenizer")
    sighted = seeing(shallow("llama", vocabulary=VOCABULARY), tokenizer, "llama")
    files = {f"{number}.jpg": each for number, each in enumerate(pictures)}
    desk = Table(sighted, files=files)
    desk.say("So?")
    assert "0.jpg: 12 x 8 pixels, 8 tokens" in desk.say("/image 0.jpg", "/regenerate")
    assert shown(desk) == [()]
    desk.say("And?", "/image 1.jpg", "/image 0.jpg", "Those?", "/regenerate")
    assert shown(desk) == [(), (pictures[0],), (pictures[1], pictures[0])]
    object.__setattr__(sighted, "tower", None)
    blind = Table(sighted, files=files)
    assert "cannot see" in blind.say("/image 0.jpg", "So?")
    assert shown(blind) == [()]
    desk.attachments.close()
    blind.attachments.close()


def test_a_chat_is_saved_with_its_pictures(tmp_path, pictures):
    messages = [said("So?", pictures[0]), said("It is.", role="assistant")]
    save(messages, tmp_path / "chat.json")
    shown, text = json.loads((tmp_path / "chat.json").read_text())["messages"][0]["content"]
    assert shown["image_url"]["url"].startswith("data:image/png;base64,")
    assert text == {"type": "text", "text": "So?"}
    save(messages, tmp_path / "chat.md")
    assert (tmp_path / "chat.md").read_text().startswith("**user**\n\n*a picture*\n\nSo?\n")


# The commands


@pytest.mark.usefixtures("read_here")
def test_files_of_the_command_line(generate, run, asked, pictures, tmp_path):
    file = tmp_path / "note.txt"
    file.write_text("About zebras.")
    ended = generate("--attach", file, "--image", pictures[0].path)
    assert ended.code == 0, ended.err
    assert "note.txt: whole, " in ended.err
    assert "12 x 8 pixels" in ended.err
    assert "to read" not in ended.err  # nothing was measured yet
    load, generation, _ = asked
    assert load.fitting
    (message,) = generation.prompt.messages
    assert "About zebras." in message.content
    assert [(each.width, each.height) for each in message.pictures] == [(12, 8)]
    assert len(generation.request.keep_as) == 1
    asked.clear()
    assert_refused(generate("--passages"), "--attach")
    lacking = tmp_path / "lacking.pdf"
    for command in (("generate", "--prompt", "Why?"), ("chat",)):
        assert_refused(run(*command, "--attach", lacking), "lacking.pdf")
    assert asked == []  # it is looked for before a model is loaded


def test_what_is_kept_on_disk_is_told_and_deleted(run):
    place = kept_blocks_folder()
    (KeptBlocks(place).begin(("a" * 64,)) / f"{'b' * 64}.safetensors").write_bytes(b"kept")
    assert f"4 bytes in {place}" in run("cache").out
    lock = place.with_name(f".{place.name}.lock")
    with FileLock(lock), mock.patch.object(kept_blocks, "_LOCK_SECONDS", 0.01):
        assert_refused(run("cache", "--clear"), "another program")
    for _ in range(2):
        assert run("cache", "--clear").code == 0
        assert not place.exists()
