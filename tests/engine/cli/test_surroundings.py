"""Whatever surrounds the real command, it works or ends with one line: never with a traceback."""

import os
import subprocess
import sys

import pytest

from engine.cli import main as command_line
from tests.support.engine.ended import ROOT
from tests.support.models.hub_models import NAME, model_files
from tests.support.models.hub_server import serving_hub
from tests.support.mostly_slow import mostly_slow

MODEL = str(ROOT / "tests" / "data" / "stories260K")
ANOTHER_PROJECT = str(ROOT / "tests" / "data" / "another_project")  # with a package named models
LONG = "a" * 300
NO_PORT = "http://127.0.0.1:9"
SHORT = ("--max-tokens", "3", "--no-cache")

# Variables, and what the shell adds.
SURROUNDINGS = {
    "usual": ({}, ""),
    "SOCKS": ({"ALL_PROXY": "socks5://127.0.0.1:9", "NO_PROXY": ""}, ""),
    "another proxy": ({"ALL_PROXY": "ftp://127.0.0.1:9", "NO_PROXY": ""}, ""),
    "no proxy's address": ({"HTTP_PROXY": "http://127.0.0.1:abc", "NO_PROXY": ""}, ""),
    "a dead proxy": ({"HTTP_PROXY": NO_PORT, "HTTPS_PROXY": NO_PORT, "NO_PROXY": ""}, ""),
    "odd exceptions": (
        {"HTTP_PROXY": NO_PORT, "NO_PROXY": "[::1,*.x,,http://[y,localhost,127.0.0.1"},
        "",
    ),
    "no certificates": ({"SSL_CERT_FILE": "/nope.pem"}, ""),
    "other certificates": ({"SSL_CERT_FILE": "/etc/passwd"}, ""),
    "a token with ü": ({"HF_TOKEN": "hf_ü"}, ""),
    "a token with a line end": ({"HF_TOKEN": "hf_a\nb"}, ""),
    "not a number": ({"HF_HUB_DOWNLOAD_TIMEOUT": "abc"}, ""),
    "no folder for a while": ({"TMPDIR": "/nope"}, ""),
    "a negative number": ({"HF_HUB_DOWNLOAD_TIMEOUT": "-1"}, ""),
    "no hub": ({"HF_ENDPOINT": "nonsense"}, ""),
    "half an address": ({"HF_ENDPOINT": "http://[::"}, ""),
    "no port": ({"HF_ENDPOINT": "http://127.0.0.1:99999"}, ""),
    "input closed": ({}, "<&-"),
    "output closed": ({}, ">&-"),
    "errors closed": ({}, "2>&-"),
    "all closed": ({}, "<&- >&- 2>&-"),
    "output full": ({}, ">/dev/full"),
    "errors full": ({}, "2>/dev/full"),
    "few letters": ({"PYTHONIOENCODING": "ascii"}, ""),
    "an old locale": ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, ""),
    "nobody's home": ({"SLIPSTREAM_HOME": "~nosuch/x"}, ""),
    "a file as home": ({"SLIPSTREAM_HOME": "/etc/passwd"}, ""),
    "a long home": ({"SLIPSTREAM_HOME": f"/tmp/{LONG}"}, ""),
    "nobody's cache": ({"HF_HUB_CACHE": "~nosuch/x"}, ""),
    "a file as cache": ({"HF_HUB_CACHE": "/etc/passwd"}, ""),
    "another project": ({"PYTHONPATH": ANOTHER_PROJECT}, ""),
}
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
PATHS = ("~nosuch/f", f"./{LONG}", f"/{LONG}", "{loop}")
TAKING_PATHS = {
    **{
        option: ("generate", "--target", MODEL, "--prompt", "x", option, "{path}")
        for option in ("--attach", "--image", "--tools", "--hosts", "--schema", "--drafter")
    },
    "--target": ("generate", "--prompt", "x", "--target", "{path}"),
    "--key-file": ("serve", "--target", MODEL, "--port", "0", "--key-file", "{path}"),
    "--add": ("models", "folders", "--add", "{path}"),
    "--remove": ("models", "folders", "--remove", "{path}"),
    "fit": ("models", "fit", "{path}"),
    "convert": ("convert", "{path}", "made"),
    "convert to": ("convert", MODEL, "{path}"),
    "bench": ("bench", "--target", MODEL, "--prompts", "{path}"),
    "--from": ("bench", "--from", "{path}"),
}


@pytest.fixture(scope="module")
def hub():
    with serving_hub({NAME: model_files()}) as server:
        yield server


def real(words, folder, hub, variables, shell=""):
    """The ended real command. Fails where it did not end as a command does."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    usual = {"HOME": str(folder), "NO_PROXY": "127.0.0.1,localhost", "HF_ENDPOINT": hub.endpoint}
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" {shell}', "sh", sys.executable, "-m", "engine", *words],
        cwd=folder,
        env={**kept, **usual, "PYTHONPATH": str(ROOT), **variables},
        input="Grüße 😀".encode(),
        capture_output=True,
        timeout=120,
    )
    out, err = (data.decode(errors="replace") for data in (ended.stdout, ended.stderr))
    assert "Traceback" not in out + err, err
    assert "Exception ignored" not in err, err
    assert ended.returncode in (0, 1, 2), (ended.returncode, err)
    if ended.returncode and "2>" not in shell:
        assert err.splitlines()[-1].startswith("slipstream: "), err
    return subprocess.CompletedProcess(words, ended.returncode, out, err)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_nothing_around_a_command_breaks_it(surroundings, command, tmp_path, hub):
    real(COMMANDS[command], tmp_path, hub, *SURROUNDINGS[surroundings])


@pytest.mark.slow
@pytest.mark.parametrize("command", TAKING_PATHS)
def test_any_path_may_be_written(command, tmp_path, hub):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in PATHS:
        words = [word.format(path=path.format(loop=loop)) for word in TAKING_PATHS[command]]
        assert real(tuple(words), tmp_path, hub, {}).returncode == 2, path
    assert not list(tmp_path.glob("~*"))


QUICK = [
    (("--version",), {}, ">/dev/full", 2, "Make room on the disk"),
    (COMMANDS["not here"], {"PYTHONPATH": ANOTHER_PROJECT}, "", 2, "o/y"),
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
            (COMMANDS["generate"], {"TMPDIR": "/nope"}, "", 2, "TMPDIR"),
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
