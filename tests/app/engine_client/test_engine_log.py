"""The log keeps the engine's complaints, and leaves prompts out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine_client import engine_log
from app.engine_client.engine_log import KEPT_LINES, EngineLog, texts_of
from engine.request import ChatMessage, Prompt, ToolCall

SECRET = "The treasure lies under the third oak, and nobody but us may know of it."
LETTERS = st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=40)


@pytest.fixture
def log(tmp_path):
    log = EngineLog(tmp_path / "logs")
    yield log
    log.close()


def written(log):
    return log.path.read_text(encoding="utf-8")


def test_it_keeps_the_latest_and_writes_all_also_after_it_was_closed(log):
    for number in range(KEPT_LINES + 50):
        log.complaint(f"line {number}\n".encode())
    log.note("started")
    assert log.tail == tuple(f"line {number}" for number in range(50, KEPT_LINES + 50))
    lines = written(log).splitlines()
    assert len(lines) == KEPT_LINES + 51
    assert lines[0].endswith(" stderr: line 0")
    assert lines[-1].endswith(" started")
    log.close()
    log.note("again")
    assert written(log).splitlines()[-1].endswith(" again")


def test_it_stays_small(tmp_path, monkeypatch):
    monkeypatch.setattr(engine_log, "_LARGEST_FILE_BYTES", 10_000)
    log = EngineLog(tmp_path / "logs")
    for _ in range(150):
        log.complaint(b"x" * 4_000)
    log.close()
    files = list((tmp_path / "logs").iterdir())
    assert len(files) == 4
    assert sum(file.stat().st_size for file in files) <= 40_000
    assert {len(line) for line in log.tail} == {400}


def test_controls_are_left_out(log):
    log.complaint("\x1b[31mred\u202e\tand\r\0\N{GRINNING FACE}\n".encode() + b"\xff")
    assert log.tail == ("?[31mred?\tand??\N{GRINNING FACE}??".replace("?", "\ufffd"),)


@pytest.mark.parametrize(
    ("text", "line", "kept"),
    [
        (SECRET, f"ValueError: cannot read {SECRET!r}", False),
        (SECRET, "ValueError: cannot read it", True),
        ("  open sesame\n", "KeyError: 'open sesame'", False),
        ("hi", "this line has hi in it", True),
        ("", "a line", True),
    ],
)
def test_a_line_that_quotes_a_message_is_left_out(text, line, kept, log):
    log.hide(["something else", text])
    for _ in range(2):
        log.complaint(line.encode())
        log.hide(["another, which is asked for before the line is read"])
    assert log.tail == ((line if kept else "(a line that quotes a message)"),) * 2
    assert (line in written(log)) is kept


@pytest.mark.parametrize(
    "prompt",
    [
        Prompt(text="a", suffix=SECRET),
        Prompt(messages=(ChatMessage("assistant", "", reasoning=SECRET),)),
        Prompt(messages=(ChatMessage("assistant", "", written=SECRET),)),
        Prompt(
            messages=(ChatMessage("assistant", "", tool_calls=(ToolCall("1", "read", SECRET),)),)
        ),
    ],
)
def test_nothing_that_a_prompt_says_is_written(prompt, log):
    log.complaint(b"a line before it")
    log.hide(texts_of(prompt))
    log.complaint(f"ValueError: {SECRET}".encode())
    assert SECRET not in written(log)


@given(data=st.data(), before=LETTERS, after=LETTERS)
def test_no_quotation_of_21_characters_is_written(data, before, after, tmp_path_factory):
    text = data.draw(st.text(st.characters(categories=["L", "N"]), min_size=21, max_size=80))
    start = data.draw(st.integers(0, len(text) - 21))
    end = data.draw(st.integers(start + 21, len(text)))
    log = EngineLog(tmp_path_factory.getbasetemp() / "hypothesis")
    try:
        log.hide([text])
        log.complaint((before + text[start:end] + after).encode())
        assert log.tail == ("(a line that quotes a message)",)
    finally:
        log.close()


def test_a_folder_that_cannot_be_made_and_a_full_disk_cost_the_file_alone(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    (tmp_path / "engine.log").symlink_to("/dev/full")
    for folder, has_file in ((tmp_path / "file" / "logs", False), (tmp_path, True)):
        log = EngineLog(folder)
        log.complaint(b"a line\n")
        log.close()
        assert (log.path is not None) == has_file
        assert log.tail == ("a line",)
        assert capsys.readouterr().err == ""
