"""`slipstream agent`, with a program that writes down with what it was started."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import psutil
import pytest

import engine.server.running
from engine.server.clients import Server, agents
from engine.server.keys import default_key_file, read_key
from tests.support.children import children_with
from tests.support.engine import scripted_host
from tests.support.loopback import serving_on_loopback
from tests.support.mostly_slow import mostly_slow

ROOT = Path(__file__).parents[3]
STORIES = ROOT / "tests" / "data" / "stories260K"
_PROGRAM = """#!{python}
import json, os, sys, urllib.request
answered = 0
if address := os.environ.get("ANTHROPIC_BASE_URL"):
    token = os.environ["ANTHROPIC_AUTH_TOKEN"]
    asked = urllib.request.Request(address + "/v1/models", headers={{"x-api-key": token}})
    answered = urllib.request.urlopen(asked).status
record = {{"arguments": sys.argv[1:], "environment": dict(os.environ), "answered": answered}}
with open({record!r}, "w") as file:
    json.dump(record, file)
print("the agent is here", file=sys.stderr)
{more}
sys.exit(7)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a program of this name on the path, which is otherwise empty. Returns its record."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def install(name, more=""):
        record, program = tmp_path / "record.json", folder / name
        text = _PROGRAM.format(python=sys.executable, record=str(record), more=more)
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
        return record

    return install


def recorded(path):
    return json.loads(path.read_text(encoding="utf-8"))


@contextmanager
def listing(models, *, key=""):
    """The port of a server that lists these models to whoever shows the key."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            shown = self.headers["authorization"] or "Bearer " + self.headers["x-api-key"]
            self.send_response(401 if key and shown != f"Bearer {key}" else 200)
            self.end_headers()
            self.wfile.write(json.dumps({"data": models}).encode())

        def log_message(self, *_): ...

    with serving_on_loopback(Handler) as address:
        yield address.rpartition(":")[2]


@pytest.fixture
def scripted(monkeypatch):
    """A server that is started here has a scripted engine."""
    serve = partial(engine.server.running.serve, command=scripted_host.command())
    monkeypatch.setattr(engine.server.running, "serve", serve)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


OURS = {"id": "tiny-4bit", "owned_by": "slipstream", "context_length": 512}


def test_it_is_started_with_the_server_that_runs_and_shows_it_our_key(run, install):
    record, key = install("claude"), read_key(default_key_file())
    with listing([OURS], key=key) as port:
        ended = run("agent", "claude", "--port", port, "--", "--continue", "why?")
        server = Server(f"http://127.0.0.1:{port}", "tiny-4bit", key=key, context=512)
    expected, found = agents(server)["claude"], recorded(record)
    assert ended.code == 7
    assert found["arguments"] == [*expected.arguments, "--continue", "why?"]
    assert expected.variables.items() <= found["environment"].items()
    assert found["environment"]["ANTHROPIC_AUTH_TOKEN"] == key
    assert "tiny-4bit" in ended.err
    assert "the agent is here" in ended.err
    with listing([OURS], key="another one, by far") as port:
        refused = run("agent", "claude", "--port", port)
    assert (refused.code, "--key-file" in refused.err) == (2, True)


THERE = ["nothing", "another program", "another model"]


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("there", mostly_slow(THERE, quick=["another model"]))
def test_a_server_of_its_own_ends_with_it(run, install, target, there):
    record = install("claude")
    with listing([OURS | {"owned_by": "us"}] if there == "another program" else [OURS]) as port:
        port = 1 if there == "nothing" else port
        ended = run("agent", "claude", "--port", port, "--target", target, "hello")
    assert ended.code == 7, ended.err
    found = recorded(record)
    assert (found["answered"], found["arguments"]) == (200, ["hello"])
    assert found["environment"]["ANTHROPIC_BASE_URL"] != f"http://127.0.0.1:{port}"
    assert "the agent is here" in ended.err
    assert children_with(scripted_host.__name__) == []


@pytest.mark.usefixtures("scripted")
def test_an_agent_that_cannot_be_started_is_one_line(run, install, target, tmp_path):
    install("claude")
    (tmp_path / "bin" / "claude").write_text("#!/no/such/program")
    for program, word in (("claude", "claude"), ("aider", "aider-chat"), ("nobody", "claude")):
        ended = run("agent", program, "--port", 1, "--target", target)
        assert (ended.code, word in ended.err.splitlines()[-1]) == (2, True), program
        assert program == "claude" or ended.err.count("\n") == 1, program


@pytest.mark.slow
def test_a_ctrl_c_is_the_agents(install, tmp_path):
    waits = (
        "import signal, time\n"
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(3))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    record = install("claude", waits)
    command = [sys.executable, "-m", "engine", "agent", "claude", "--target", str(STORIES)]
    process = subprocess.Popen(
        [*command, "--drafter", "lookup", "--draft-length", "4", "--port", "1"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "ready\n"
    children = psutil.Process(process.pid).children()
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 3, errors
    assert errors.splitlines() == ["slipstream: Loading stories260K", "the agent is here"]
    assert recorded(record)["answered"] == 200
    assert not psutil.wait_procs(children, 10)[1]
