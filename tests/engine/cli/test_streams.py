"""Standard streams that are closed are opened again, before a file of ours takes their number."""

import signal
import subprocess
import sys

import pytest

from engine.cli.streams import new_console
from tests.support.engine.ended import ROOT

_CHILD = """
import sys
from contextlib import suppress
from engine.cli.streams import let_go, mend_streams
mend_streams()
with suppress(OSError):
    print("lost")
let_go(sys.stdout, sys.stderr)
with open(sys.argv[1], "w") as file:
    print(file.fileno(), sys.stdin.fileno(), repr(sys.stdin.read()), file=file)
"""

_STRUCK = """
import os, signal, sys
class Striking:
    def find_spec(self, name, *_):
        name == sys.argv[1] and os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Striking())
from engine.__main__ import main
main()
"""


@pytest.mark.quick(1)
@pytest.mark.parametrize("module", ["typer.rich_utils", "engine.cli.main"])
def test_an_early_ctrl_c_ends_a_command_silently(module):
    words = [sys.executable, "-c", _STRUCK, module, "--help"]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True)
    assert (ended.returncode in (-signal.SIGINT, 130), ended.stderr) == (True, b"")


def test_a_console_that_nobody_sees_folds_nothing_and_moves_no_cursor(monkeypatch):
    for columns, colours, width in (("", "1", 1000), ("0", "", 1000), ("40", "1", 40)):
        monkeypatch.setenv("COLUMNS", columns)
        monkeypatch.setenv("FORCE_COLOR", colours)
        console = new_console()
        assert (console.width, console.is_terminal) == (width, False)
        assert bool(console.color_system) == bool(colours)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    console = new_console()
    # Not hidden: a signal may end or stop the process meanwhile.
    assert (console.is_terminal, console.show_cursor(False)) == (True, False)


def test_an_answer_is_written_where_progress_cannot_be():
    child = f"{_CHILD.partition('with')[0]}print('lost', file=sys.stderr)\nprint('found')"
    for shell in ("2>/dev/full", "2>&-"):
        words = ["sh", "-c", f'exec "$@" {shell}', "sh", sys.executable, "-c", child]
        ended = subprocess.run(words, cwd=ROOT, capture_output=True)
        assert (ended.returncode, ended.stdout) == (0, b"found\n"), shell


def test_a_byte_order_mark_is_not_a_part_of_the_input(tmp_path):
    words = [sys.executable, "-c", _CHILD, str(tmp_path / "told")]
    subprocess.run(words, cwd=ROOT, capture_output=True, check=True, input=b"\xef\xbb\xbfhi")
    assert "'hi'" in (tmp_path / "told").read_text()


def test_closed_streams_are_opened_again(tmp_path):
    for number, shell in enumerate(("<&- >&- 2>&-", "</dev/null >/dev/full")):
        told = tmp_path / str(number)
        words = ["sh", "-c", f'exec "$@" {shell}', "sh", sys.executable, "-c", _CHILD, str(told)]
        ended = subprocess.run(words, cwd=ROOT, capture_output=True)
        assert (ended.returncode, ended.stderr) == (0, b""), shell
        assert told.read_text() == "3 0 ''\n", shell
