"""Documents in a terminal's conversation: what the model gets, and what is said of it."""

import signal
from contextlib import closing
from io import StringIO
from pathlib import Path
from unittest import mock

import pytest
from filelock import FileLock
from rich.console import Console

from engine.cli.attaching import Attachments, read_attached
from engine.cli.chat import typed_path
from engine.conversation import kept_blocks
from engine.conversation.kept_blocks import KeptBlocks, kept_blocks_folder
from engine.conversation.session import Session
from engine.documents import Document, Section
from engine.documents.reading import Cancelled
from engine.events import Prefill
from engine.request import Request
from models.errors import Problem
from tests.support.engine.ended import assert_refused
from tests.support.engine.helpers import Scripted
from tests.support.engine.sessions import loaded
from tests.support.engine.terminal import Table, Watched

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


def test_a_file_goes_with_the_next_message_and_stays_there(table):
    table.session.press = lambda event: isinstance(event, Prefill)
    table.say("/attach note.pdf", "Why?")
    assert table.chat.messages == []
    table.session.press = lambda event: False
    assert "1. note.pdf, 1 page, attached to the next message" in table.say("/attachments")
    assert "note.pdf: 1 page, whole, " in table.say("Why?", "And then?")
    assert NOTE.text in table.asked[0].content
    assert table.asked[0].content.endswith("Why?")
    assert table.asked[1].content == "And then?"
    table.say("/system be nice", "Why?")
    assert NOTE.text in table.asked[0].content


def test_of_a_long_file_each_question_gets_its_passages(table):
    assert "only passages" not in table.say("/attach note.pdf", "Summarize it")
    table.say("/system")
    printed = table.say("/attach long.pdf", "Tell me of dragons")
    assert "3 passages of 8" in printed
    assert "found by: dragons" in printed
    assert " to read" in printed
    assert "only passages of long.pdf" in printed
    assert "About dragons" in table.asked[0].content
    assert "About guitars" not in table.asked[0].content
    before = list(table.chat.messages)
    table.say("/regenerate")
    assert table.chat.messages == before
    assert "only passages" not in table.say("Tell me of guitars")
    assert table.chat.messages[:2] == before
    assert "About guitars" in table.asked[1].content
    assert "About dragons" not in table.asked[1].content
    listed = table.say("/attachments")
    assert "1. note.pdf, 1 page, whole" in listed
    assert "2. long.pdf, 8 pages, " in listed
    shown = table.say("/attachments 2")
    assert "About dragons" in shown
    assert "About bridges" not in shown


def test_what_cannot_be_done_is_a_line(table):
    for line, words in (
        ("/attach", "file's name is missing"),
        ("/attach other.pdf", "Look for it"),
        ("/attachments", "/attach FILE"),
        ("/attachments 3", "number 3"),
        ("/attachments x", "not a number"),
        ("/passages", "question is missing"),
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
    console = Console(file=file, width=200)
    request = Request(max_tokens=12)
    with closing(Attachments(session, console, [LONG])) as attachments:
        attachments.write("Tell me of dragons", request, before=[], more=False)
        assert "to read" not in file.getvalue()
        from_disk = Prefill("", 500, 1500, 500, 9.0)
        attachments.learn([from_disk, Prefill("", 1500, 1500, 500, 19.0)])
        asked = attachments.write("Tell me of dragons", request, before=[], more=False)
        assert "whole, " in file.getvalue()
        assert "about 35 s to read" in file.getvalue()
        assert "--passages sends only relevant passages: about 20 s" in file.getvalue()
        fewer = attachments.write(
            "Tell me of dragons", request, before=[], more=False, passages=True
        )
    assert asked.content.count("About ") == len(SUBJECTS)
    assert "About dragons" in fewer.content
    assert fewer.content.count("About ") < len(SUBJECTS)


def test_passages_are_asked_for_in_a_chat(table):
    table.say("/attach long.pdf", "/passages Tell me of dragons")
    assert "About dragons" in table.asked[0].content
    assert table.asked[0].content.count("About ") < len(SUBJECTS)


def test_what_was_copied_is_told(tokenizer):
    file = StringIO()
    session = Session(loaded(Scripted(ANSWERS), tokenizer))
    attachments = Attachments(session, Console(file=file, width=200), [NOTE, LONG])
    attachments.show_copied("It says nothing of the kind.")
    assert file.getvalue() == ""
    attachments.show_copied("About zebras. a a a a a a a a")
    assert "100 % word for word: note.pdf" in file.getvalue()


def test_what_nobody_sees_in_a_file_is_told():
    file = StringIO()
    scanned = Document("scan.pdf", "pdf", "0", (Section("page", 1, "a"),), without_text=(2, 3))
    console = Console(file=file, width=200)
    assert read_attached(Path("scan.pdf"), console, lambda path, **_: scanned) is scanned
    assert "scan.pdf: 2 of 3 pages have no text: 2, 3." in file.getvalue()


def test_reading_can_be_interrupted():
    def read(path, *, cancelled, progress):
        assert not cancelled()
        signal.raise_signal(signal.SIGINT)
        assert cancelled()
        raise Cancelled

    with pytest.raises(Problem):
        read_attached(Path("a.pdf"), Console(file=StringIO()), read)


def test_a_path_as_terminals_drop_it(tmp_path):
    file = tmp_path / "my file's.txt"
    file.touch()
    escaped = str(file).replace(" ", r"\ ").replace("'", r"\'")
    for text in (str(file), escaped, f'"{file}"'):
        assert typed_path(text) == file
    assert typed_path('no "such') == Path('no "such')


# The commands


@pytest.mark.usefixtures("read_here")
def test_files_of_the_command_line(generate, run, asked, tmp_path):
    file = tmp_path / "note.txt"
    file.write_text("About zebras.")
    ended = generate("--attach", file)
    assert ended.code == 0
    assert "note.txt: whole, " in ended.err
    assert "to read" not in ended.err  # nothing was measured yet
    load, generation, _ = asked
    assert load.fitting
    assert "About zebras." in generation.prompt.messages[0].content
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
