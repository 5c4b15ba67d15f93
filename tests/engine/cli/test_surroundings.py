"""Whatever surrounds the real command, it works or ends with one line: never with a traceback."""

import os
import signal
import subprocess
import sys

import pytest

from engine.cli import main as command_line
from engine.cli.streams import new_console
from tests.support.engine.ended import ROOT
from tests.support.models.hub_models import NAME, model_files
from tests.support.models.hub_server import serving_hub
from tests.support.mostly_slow import mostly_slow

MODEL = str(ROOT / "tests" / "data" / "stories260K")
ANOTHER_PROJECT = str(ROOT / "tests" / "data" / "another_project")  # with a package named models
LONG = "a" * 300
NO_PORT = "http://127.0.0.1:9"
SHORT = ("--max-tokens", "3", "--no-cache")

ODD = {  # values of variables
    "SSL_CERT_FILE": ("/nope.pem", "/etc/passwd"),
    "HF_TOKEN": ("hf_ü", "hf_a\nb"),
    "HF_HUB_DOWNLOAD_TIMEOUT": ("abc", "-1"),
    "HF_ENDPOINT": ("nonsense", "http://[::", "http://127.0.0.1:99999"),
    "SLIPSTREAM_HOME": ("~nosuch/x", "/etc/passwd", f"/tmp/{LONG}"),
    "HF_HUB_CACHE": ("~nosuch/x", "/etc/passwd"),
    "TMPDIR": ("/nope",),
    "PYTHONIOENCODING": ("ascii",),
    "PYTHONPATH": (ANOTHER_PROJECT,),
}
TOGETHER = (
    {"ALL_PROXY": "socks5://127.0.0.1:9", "NO_PROXY": ""},
    {"ALL_PROXY": "ftp://127.0.0.1:9", "NO_PROXY": ""},
    {"HTTP_PROXY": "http://127.0.0.1:abc", "NO_PROXY": ""},
    {"HTTP_PROXY": NO_PORT, "HTTPS_PROXY": NO_PORT, "NO_PROXY": ""},
    {"HTTP_PROXY": NO_PORT, "NO_PROXY": "[::1,*.x,,http://[y,localhost,127.0.0.1"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
)
SHELLS = ("", "<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full")
SURROUNDINGS = [
    *(({name: value}, "") for name, values in ODD.items() for value in values),
    *((variables, "") for variables in TOGETHER),
    *(({}, shell) for shell in SHELLS),
]
COMMANDS = {
    "--help": ("--help",),
    "list": ("models", "list"),
    "search": ("models", "search", "tiny"),
    "pull": ("models", "pull", NAME),
    "folders": ("models", "folders", "--add", "/tmp"),
    "not here": ("generate", "--prompt", "x", "--target", "o/y"),
    "generate": ("generate", "--target", MODEL, "--prompt", "-", *SHORT),
    "chat": ("chat", "--target", MODEL, *SHORT),
}


@pytest.fixture(scope="module")
def hub():
    with serving_hub({NAME: model_files()}) as server:
        yield server


def real(words, folder, hub, variables, shell=""):
    """The ended real command. Fails where it did not end as a command does."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    usual = {"HOME": str(folder), "NO_PROXY": "127.0.0.1,localhost", "HF_ENDPOINT": hub.endpoint}
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {shell}', "sh", sys.executable, "-m", "engine", *words],
        cwd=folder,
        env={**kept, **usual, "PYTHONPATH": str(ROOT), **variables},
        input="Grüße 😀".encode(),
        capture_output=True,
        timeout=120,
    )
    out, err = (data.decode(errors="replace") for data in (done.stdout, done.stderr))
    assert "Traceback" not in out + err, err
    assert "Exception ignored" not in err, err
    assert done.returncode in (0, 1, 2), (done.returncode, err)
    if done.returncode and "2>" not in shell:
        assert err.splitlines()[-1].startswith("slipstream: "), err
    return subprocess.CompletedProcess(words, done.returncode, out, err)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("variables", "shell"), SURROUNDINGS, ids=lambda part: str(part)[:60])
def test_nothing_around_a_command_breaks_it(variables, shell, command, tmp_path, hub):
    real(COMMANDS[command], tmp_path, hub, variables, shell)


QUICK = [
    (("--version",), {}, ">/dev/full", 2, "Make room on the disk"),
    (COMMANDS["folders"], {"PYTHONPATH": ANOTHER_PROJECT}, "", 0, ""),
]


@pytest.mark.parametrize(
    ("words", "variables", "shell", "code", "says"),
    mostly_slow(
        [
            *QUICK,
            (("models", "list"), {"HF_HUB_DOWNLOAD_TIMEOUT": "abc"}, "", 2, "DOWNLOAD_TIMEOUT"),
            (("models", "list"), {"PYTHONPATH": ANOTHER_PROJECT}, "", 0, ""),
            (("models", "list"), {"PYTHONIOENCODING": "ascii"}, "", 0, ""),
            (("generate", "--target", MODEL, "--prompt", "x", *SHORT), {}, "<&-", 0, "tokens/s"),
            (COMMANDS["generate"], {"PYTHONIOENCODING": "ascii"}, "", 0, "tokens/s"),
            (COMMANDS["generate"], {}, "<&-", 2, "The prompt is empty"),
            ((*COMMANDS["generate"], "--drafter", "none"), {"TMPDIR": "/nope"}, "", 2, "TMPDIR"),
            (COMMANDS["generate"], {}, "2>/dev/full", 0, ""),
        ],
        quick=QUICK,
    ),
)
def test_what_is_done_there(words, variables, shell, code, says, tmp_path, hub):
    ended = real(words, tmp_path, hub, variables, shell)
    assert ended.returncode == code, ended.stderr
    assert says in ended.stderr
    assert code != 2 or ended.stderr.count("\n") == 1, "and nothing of what libraries say"


@pytest.mark.parametrize(
    ("words", "own"),
    [
        (["chat", "--tools"], 2),
        (["chat", "--tools", "--learn"], 2),
        (["agent", "claude", "--", "--tools"], None),
        (["generate", "--prompt", "--tools"], None),
        (["generate", "--prompt", "--tools", "--tools"], 4),
    ],
)
def test_our_own_tools_are_given_to_us_alone(monkeypatch, words, own):
    given = []
    monkeypatch.setattr(command_line, "app", given.append)
    command_line.main(words)
    (found,) = given
    files = [place for place, word in enumerate(found) if word.endswith(".json")]
    assert files == ([] if own is None else [own])
    assert [word for word in found if not word.endswith(".json")] == words


# Standard streams

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
    done = ended(_STRUCK, module, "--help")
    assert (done.returncode in (-signal.SIGINT, 130), done.stderr) == (True, b"")


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


def ended(child, *words, shell="", **options):
    """A program in Python whose streams the shell has changed so."""
    words = ["sh", "-c", f'exec "$@" {shell}', "sh", sys.executable, "-c", child, *map(str, words)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, **options)


def test_closed_streams_are_opened_again_before_a_file_of_ours_takes_their_number(tmp_path):
    told = tmp_path / "told"
    for shell in ("<&- >&- 2>&-", "</dev/null >/dev/full"):
        done = ended(_CHILD, told, shell=shell)
        assert (done.returncode, done.stderr) == (0, b""), shell
        assert told.read_text() == "3 0 ''\n", shell
    assert ended(_CHILD, told, input=b"\xef\xbb\xbfhi").returncode == 0
    assert "'hi'" in told.read_text(), "a byte order mark is a part of the input"
    answering = f"{_CHILD.partition('with')[0]}print('lost', file=sys.stderr)\nprint('found')"
    for shell in ("2>/dev/full", "2>&-"):  # where progress cannot be written
        done = ended(answering, shell=shell)
        assert (done.returncode, done.stdout) == (0, b"found\n"), shell
