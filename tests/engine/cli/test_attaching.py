"""Documents and pictures in a terminal's conversation: what the model gets, and what is said."""

import json
import signal
from contextlib import closing
from io import StringIO
from pathlib import Path
from unittest import mock

import pytest
from filelock import FileLock
from rich.console import Console

from engine.cli import doctor
from engine.cli.attaching import Attachments, read_attached
from engine.cli.chat import save, typed_path
from engine.conversation import kept_blocks
from engine.conversation.kept_blocks import KeptBlocks, kept_blocks_folder
from engine.conversation.session import Session
from engine.documents import Document, Section
from engine.documents.reading import Cancelled
from engine.events import Prefill
from engine.request import Request
from models.errors import Problem
from models.model_folder import inspect
from tests.support.engine.ended import assert_refused
from tests.support.engine.helpers import Scripted
from tests.support.engine.pictures import VOCABULARY, picture, said, seeing, seeing_tokenizer
from tests.support.engine.seeing_folders import write_seeing
from tests.support.engine.sessions import loaded
from tests.support.engine.terminal import Table, Watched
from tests.support.engine.tiny import shallow, write_folder

SUBJECTS = ("apples", "bridges", "candles", "dragons", "engines", "forests", "guitars", "hammers")


def made(name, subjects, words):
    texts = [f"About {subject}. " + "a " * words for subject in subjects]
    sections = tuple(Section("page", i, text.strip()) for i, text in enumerate(texts, start=1))
    return Document(name, "pdf", name, sections)


NOTE = made("note.pdf", ["zebras"], 20)
LONG = made("long.pdf", SUBJECTS, 215)  # 3,600 bytes, which are tokens here
FILES = {document.name: document for document in (NOTE, LONG)}
ANSWERS = [ord("j") + place % 7 for place in range(9000)]  # no letter of a document's words


@pytest.fixture
def table(tokenizer):
    """Of a target that reads thousands of tokens in no time: what it writes depends on none."""
    table = Table(loaded(Scripted(ANSWERS), tokenizer), files=FILES)
    yield table
    table.attachments.close()


def subjects_of(message):
    """Those of the documents in a message."""
    return {subject for subject in SUBJECTS if f"About {subject}" in message.content}


def test_a_file_goes_with_the_next_message_and_stays_there(table):
    table.session.press = lambda event: isinstance(event, Prefill)
    table.say("/attach note.pdf", "Why?")
    assert table.chat.messages == []
    table.session.press = lambda event: False
    assert "1. note.pdf, 1 page, attached to the next message" in table.say("/attachments")
    table.say("Why?", "And then?")
    assert NOTE.text in table.asked[0].content
    assert table.asked[0].content.endswith("Why?")
    assert table.asked[1].content == "And then?"
    table.say("/system be nice", "Why?")
    assert NOTE.text in table.asked[0].content


def test_of_a_long_file_each_question_gets_its_passages(table):
    assert "only passages" not in table.say("/attach note.pdf", "Summarize it")
    table.say("/system")
    printed = table.say("/attach long.pdf", "Tell me of dragons")
    for part in ("3 passages of 8", ": dragons", " to read", "only passages of long.pdf"):
        assert part in printed
    assert subjects_of(table.asked[0]) >= {"dragons"}
    assert "guitars" not in subjects_of(table.asked[0])
    before = list(table.chat.messages)
    table.say("/regenerate")
    assert table.chat.messages == before
    assert "only passages" not in table.say("Tell me of guitars")
    assert table.chat.messages[:2] == before
    assert "guitars" in subjects_of(table.asked[1])
    assert "dragons" not in subjects_of(table.asked[1])
    listed = table.say("/attachments")
    for line in ("1. note.pdf, 1 page, whole", "2. long.pdf, 8 pages, "):
        assert line in listed
    shown = table.say("/attachments 2")
    assert "About dragons" in shown
    assert "About bridges" not in shown
    table.say("/system", "/passages Tell me of dragons")
    assert "dragons" in subjects_of(table.asked[0]) < {*SUBJECTS}


def test_what_cannot_be_done_is_a_line(table):
    for line, words in (
        ("/attach", "file's name is missing"),
        ("/attach other.pdf", "Look for it"),
        ("/attachments", "/attach FILE"),
        ("/attachments 3", "number 3"),
        ("/attachments x", "not a number"),
        ("/passages", "question is missing"),
        ("/image", "picture's name is missing"),
        ("/image 7.jpg", "Look for it"),
    ):
        assert words in table.say(line), line
    assert table.chat.messages == []


def test_a_file_that_is_not_read_any_more_is_given_again(tokenizer):
    target = loaded(Scripted(ANSWERS), tokenizer, context=1500)
    files = {"note.pdf": made("note.pdf", ["zebras"], 150)}
    table = Table(target, request=Request(max_tokens=12, overflow="rolling"), files=files)
    table.say("/attach note.pdf", "Why?", "a " * 280)
    assert "left out" in table.say("b " * 300)
    table.say("And zebras?")
    assert "About zebras" in table.asked[-1].content
    table.attachments.close()


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


def shown(table):
    return [message.pictures for message in table.asked]


@pytest.fixture
def pictures(tmp_path):
    return [picture(tmp_path, number) for number in range(2)]


def test_a_picture_goes_with_the_next_message_that_is_shown(pictures, tmp_path):
    tokenizer = seeing_tokenizer(tmp_path / "tokenizer")
    sighted = seeing(shallow("llama", vocabulary=VOCABULARY), tokenizer, "llama")
    files = {f"{number}.jpg": each for number, each in enumerate(pictures)}
    table = Table(sighted, files=files)
    table.say("So?")
    assert "0.jpg: 12 x 8 pixels, 8 tokens" in table.say("/image 0.jpg", "/regenerate")
    assert shown(table) == [()]
    table.say("And?", "/image 1.jpg", "/image 0.jpg", "Those?", "/regenerate")
    assert shown(table) == [(), (pictures[0],), (pictures[1], pictures[0])]
    object.__setattr__(sighted, "tower", None)
    blind = Table(sighted, files=files)
    assert "cannot see" in blind.say("/image 0.jpg", "So?")
    assert shown(blind) == [()]
    table.attachments.close()
    blind.attachments.close()


def test_a_chat_is_saved_with_its_pictures(tmp_path, pictures):
    messages = [said("So?", pictures[0]), said("It is.", role="assistant")]
    save(messages, tmp_path / "chat.json")
    shown, text = json.loads((tmp_path / "chat.json").read_text())["messages"][0]["content"]
    assert shown["image_url"]["url"].startswith("data:image/png;base64,")
    assert text == {"type": "text", "text": "So?"}
    save(messages, tmp_path / "chat.md")
    assert (tmp_path / "chat.md").read_text().startswith("**user**\n\n*a picture*\n\nSo?\n")


def test_the_doctor_says_whether_a_target_sees(tmp_path):
    write_folder("llama", tmp_path / "blind", layers=2)
    folders = write_seeing("qwen3_vl", tmp_path / "sees"), tmp_path / "blind"
    sees, blind = (doctor.check_sight(inspect(folder)) for folder in folders)
    assert ("tokens" in sees.fact, "cannot see" in blind.fact) == (True, True)
    assert (sees.usable, blind.usable) == (True, True)


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
