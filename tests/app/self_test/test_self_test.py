"""What the self-test calls right, and that it tells of a window or a server that dies or hangs."""

import json
import platform
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from PySide6.QtGui import QImage

import app.__main__ as program
from app.self_test import checks as self_test
from app.self_test.checks import judge, watch_window
from app.self_test.facts import (
    AnswerFacts,
    EngineFacts,
    FailureFacts,
    Observed,
    PairFacts,
    WindowFacts,
    read_facts,
    write_fact,
)
from app.self_test.served import ServedAnswer, ask_server
from app.self_test.window import WindowTest
from models.errors import Problem
from tests.support.app.window_maker import (
    BARE_PYTHON,
    OFFSCREEN_COMPLAINTS,
    fake_host,
    make_window,
)
from tests.support.app.window_use import let_go

WINDOW = WindowFacts(
    painted_at=12.5, pid=1, platform="offscreen", width=8, height=6, pyside6="6", qt="6.1"
)
RIGHT = Observed(
    window=WINDOW,
    engine=EngineFacts(pid=2, python=platform.python_version(), mlx="0", mlx_lm="1", device="CPU"),
    pair=PairFacts(target="smollm2", drafter="auto", draft_length="4", precision="4-bit"),
    answer=AnswerFacts(
        question="Where?",
        text="It is Paris.",
        ending="stop",
        tokens=8,
        proposed=9,
        accepted=7,
        drafting=0.2,
        tokens_per_second=None,
    ),
)
LINES = "\n".join(
    write_fact(fact) for fact in (RIGHT.window, RIGHT.engine, RIGHT.pair, RIGHT.answer) if fact
)
PAINTS = f"print({write_fact(WINDOW)!r}, flush=True)"


def wrong(part, **fields):
    return replace(RIGHT, **{part: replace(getattr(RIGHT, part), **fields)})


def says(*lines):
    """A window's command that does this instead."""
    return (*BARE_PYTHON, "-c", "\n".join(lines))


@pytest.mark.parametrize(
    ("observed", "fact"),
    [
        (wrong("engine", pid=1), ""),
        (wrong("engine", pid=0), ""),
        (wrong("engine", python="3.0"), "3.0"),
        (wrong("answer", ending="length"), "length"),
        (wrong("answer", text="It is Berlin."), "Berlin"),
        (wrong("answer", accepted=0), "accepted"),
        (wrong("answer", drafting=0.62), "62%"),
        (replace(RIGHT, failure=FailureFacts(why="The engine died.")), "The engine died."),
        *((replace(RIGHT, **{part: None}), "") for part in ("window", "engine", "pair", "answer")),
    ],
)
def test_each_wrong_fact_is_a_failure_and_on_a_mac_a_cpu(observed, fact, monkeypatch):
    assert judge(RIGHT) == []
    (failure,) = judge(observed)
    assert fact in failure
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    (failure,) = judge(wrong("engine", device="Apple M4 Pro (CPU)"))
    assert "Apple M4 Pro (CPU)" in failure
    assert judge(wrong("engine", device="Apple M4 Pro (GPU)")) == []


def test_facts_cross_the_pipe_and_other_lines_are_ignored():
    lines = ["a library", *LINES.splitlines(), "[1]", '{"fact": 3}', '{"fact": "other"}']
    assert read_facts("\n".join(lines).encode() + b"\n\xff\n") == RIGHT
    assert read_facts(b'{"fact": "window", "painted_at": 12.5, "pid": 4}\n') == Observed()


CRASH = ("import os, sys", "print('no display', file=sys.stderr, flush=True)", "os.abort()")


@pytest.mark.parametrize(
    ("command", "window", "facts"),
    [
        (says(PAINTS, *CRASH), WINDOW, ["SIGABRT", "no display"]),
        (says(PAINTS, "import time", "time.sleep(3600)"), WINDOW, []),
        (("/no/such/program",), None, ["/no/such/program"]),
    ],
    ids=["crashes", "hangs", "is missing"],
)
def test_a_window_that_does_not_answer_is_reported(tmp_path, command, window, facts):
    run = watch_window(command, tmp_path, None, seconds=60 if facts else 0.6)
    assert run.observed == Observed(window=window)
    assert run.failure
    assert all(fact in run.failure for fact in facts)


def test_the_window_gets_a_home_and_the_picture_of_where_we_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tell = says(
        "import json, os, sys",
        "why = json.dumps([*sys.argv[1:], os.environ['SLIPSTREAM_HOME']])",
        "print(json.dumps({'fact': 'failure', 'why': why}))",
    )
    run = watch_window(tell, tmp_path / "home", Path("w.png"), seconds=60)
    home, picture = str(tmp_path / "home"), str(tmp_path / "w.png")
    words = ["--self-test-window", home, "--self-test-picture", picture, home]
    assert json.loads(run.observed.failure.why) == words


@pytest.fixture
def no_starter(monkeypatch):
    monkeypatch.setattr(self_test, "lend_starter", lambda home: None)
    monkeypatch.setattr(self_test, "ask_server", lambda environment: ServedAnswer(text="{}"))


def run_test(capsys, *command):
    status = self_test.main(command=command)
    said = capsys.readouterr()
    return status, json.loads(said.out), said.err


@pytest.mark.usefixtures("no_starter")
def test_the_report_is_one_object_and_a_failure_is_on_standard_error_too(capsys, monkeypatch):
    status, report, errors = run_test(capsys, *says(f"print({LINES!r})"))
    assert (status, report["failures"], errors) == (0, [], "")
    assert report["versions"]["slipstream"]
    assert (report["versions"]["pyside6"], report["versions"]["mlx"]) == ("6", "0")
    assert "mlx" not in report["engine"]
    assert report["answer"] == asdict(RIGHT.answer)
    assert report["server"]["text"] == "{}"
    assert "first_paint_seconds" in report["window"]
    assert report["bundle"] == {}
    status, report, errors = run_test(capsys, *says("raise SystemExit(3)"))
    assert (status, report["passed"]) == (1, False)
    assert errors.splitlines() == report["failures"]
    assert "status 3" in errors
    broken = ServedAnswer(failure="It did not start.")
    monkeypatch.setattr(self_test, "ask_server", lambda environment: broken)
    status, report, _ = run_test(capsys, *says(f"print({LINES!r})"))
    assert (status, report["failures"]) == (1, ["It did not start."])

    def offline(home):
        raise Problem("There is no network.", "Connect.")

    monkeypatch.setattr(self_test, "lend_starter", offline)
    status, report, _ = run_test(capsys, "never")
    assert (status, report["failures"]) == (1, ["There is no network. Connect."])
    assert report["versions"]["python"] == platform.python_version()


@pytest.mark.parametrize("writes", ["", "new", "file"])
def test_changes_to_the_bundle_are_found(tmp_path, capsys, monkeypatch, writes):
    bundle = tmp_path / "Slipstream.app"
    (bundle / "Contents").mkdir(parents=True)
    (bundle / "Contents" / "file").write_text("as it was")
    monkeypatch.setattr(self_test, "bundle_of", lambda program: bundle)
    monkeypatch.setattr(self_test, "ask_server", lambda environment: ServedAnswer())
    write = f"open({str(bundle / 'Contents' / writes)!r}, 'w')" if writes else ""
    status, report, _ = run_test(capsys, *says(f"print({LINES!r})", write))
    assert (status == 1) is bool(writes)
    assert report["bundle"] == {"path": str(bundle), "unchanged": not writes}


def test_in_a_bundle_the_program_that_is_clicked_on_opens_the_window(monkeypatch):
    assert self_test.window_command() == (sys.executable, "-m", "app")
    monkeypatch.setattr(sys, "executable", "/Apps/S.app/Contents/MacOS/python3")
    assert self_test.window_command() == ("/Apps/S.app/Contents/MacOS/Slipstream",)
    assert self_test.bundle_of(Path(sys.executable)) == Path("/Apps/S.app")


# The window's part


@pytest.mark.quick(2)
@pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)
@pytest.mark.parametrize(
    ("steps", "last"),
    [
        ("ready take load serve", "answer"),
        ("ready take failed serve", "failure"),
        ("ready take load take kill", "failure"),
    ],
)
def test_a_window_is_tested_and_closed(steps, last, tmp_path, plain_application, until, capsys):
    window = make_window(plain_application, tmp_path, fake_host(tmp_path, steps))
    window.show()
    picture = tmp_path / "window.png"
    WindowTest(window, picture).begin()
    until(lambda: not window.isVisible())
    output = capsys.readouterr().out
    seen = read_facts(output.encode())
    let_go(window.application, window)
    assert json.loads(output.splitlines()[-1])["fact"] == last
    assert seen.window.platform == "offscreen"
    if last == "answer":
        assert seen.engine.pid not in (0, seen.window.pid)
        assert seen.answer.text == "served"
        assert QImage(str(picture)).width() == seen.window.width


def test_arguments_are_explained_and_each_has_its_effect(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["app", "--version"])
    assert program.main() == 0
    for argument, status in (("--help", 0), ("--nonsense", 2)):
        monkeypatch.setattr(sys, "argv", ["app", argument])
        with pytest.raises(SystemExit) as ended:
            program.main()
        assert ended.value.code == status
    said = capsys.readouterr()
    assert said.out.startswith("Slipstream 0.")
    assert "--self-test" in said.out
    assert "--nonsense" in said.err
    done = []
    monkeypatch.setattr("app.self_test.checks.main", lambda *words: done.append(words) or 0)
    monkeypatch.setattr("app.self_test.window.main", lambda *words: done.append(words) or 0)
    for words in (
        ["--self-test"],
        ["--self-test", "--self-test-picture", "w.png"],
        ["--self-test-window", "home", "--self-test-picture", "w.png"],
    ):
        monkeypatch.setattr(sys, "argv", ["app", *words])
        assert program.main() == 0
    assert done == [(None,), (Path("w.png"),), (Path("home"), Path("w.png"))]


# The local server

SERVER = """
import json, os
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked["response_format"]["json_schema"]["schema"]["required"] == ["capital"]
        self.send_response(STATUS)
        self.end_headers()
        message = {"content": os.environ["ANSWER"]}
        self.wfile.write(json.dumps({"choices": [{"message": message}]}).encode())
    def log_message(self, *words):
        pass
server = HTTPServer(("127.0.0.1", 0), Handler)
print(f"It answers at http://127.0.0.1:{server.server_port} with tiny.", flush=True)
server.handle_request()
"""


def ask(program, answer="", *, seconds=60.0):
    return ask_server({"ANSWER": answer}, command=says(program), seconds=seconds)


RIGHTLY = '{"capital": "Paris"}'
OK = SERVER.replace("STATUS", "200")
CUT = SERVER.replace("STATUS)", '200)\n        self.send_header("Content-Length", "999")')


def test_an_answer_by_the_schema():
    served = ask(OK, RIGHTLY)
    assert (served.text, served.failure) == (RIGHTLY, "")


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    ("program", "answer", "fact"),
    [
        (OK, "It is Paris.", ""),
        (OK, '{"capital": 1}', ""),
        (SERVER.replace("STATUS", "503"), "no memory", "no memory"),
        ("import time; time.sleep(3600)", "", ""),
        ("raise SystemExit('no such module')", "", "no such module"),
        (CUT, RIGHTLY, ""),
        (OK, "{}", ""),
    ],
    ids=["words", "a number", "refuses", "hangs", "ends", "breaks off", "no key"],
)
def test_a_server_that_does_not_answer_by_the_schema_is_reported(program, answer, fact):
    seconds = 0.3 if "sleep" in program else 60.0
    failure = ask(program, answer, seconds=seconds).failure
    assert failure
    assert fact in failure
