"""What a process that reads a file cannot do and cannot take, tried in processes of their own."""

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from engine.documents.confine import TOO_MUCH_MEMORY

ROOT = Path(__file__).parents[3]
CONFINED = """
import sys
from engine.documents.confine import confine, watch_memory
from engine.documents.limits import Effort
"""


def run(script, *arguments):
    return subprocess.run(
        [sys.executable, "-c", CONFINED + script, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


ACTS = [
    "import socket; socket.socket()",
    "import socket; socket.create_connection(('127.0.0.1', 1))",
    "import socket; socket.getaddrinfo('localhost', 80)",
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:1/')",
    "import subprocess; subprocess.run(['true'])",
    "import os; os.system('true')",
    "import os; os.posix_spawn('/bin/true', ['true'], {})",
    "import os; os.execv('/bin/true', ['true'])",
    "import os; os.fork()",
    "import os; os.kill(os.getppid(), 0)",
    "open(sys.argv[1] + '/new', 'w')",
    "open(sys.argv[1] + '/old', 'ab')",
    "open(sys.argv[1] + '/old', 'r+')",
    "import os; os.open(sys.argv[1] + '/new', os.O_CREAT)",
    "import os; os.remove(sys.argv[1] + '/old')",
    "import os; os.rename(sys.argv[1] + '/old', sys.argv[1] + '/new')",
    "import os; os.mkdir(sys.argv[1] + '/new')",
    "import os; os.symlink('/', sys.argv[1] + '/new')",
    "import os; os.chmod(sys.argv[1] + '/old', 0)",
    "import os; os.truncate(sys.argv[1] + '/old', 0)",
    "import sqlite3; sqlite3.connect(':memory:')",
    "import ctypes; ctypes.CDLL(None)",
    "import pickle; pickle.loads(b'cos\\nsystem\\n.')",
]


def test_it_reaches_nothing_and_changes_nothing(tmp_path):
    (tmp_path / "old").write_text("as it was")
    script = """
import json
confine(Effort())
done = []
for act in json.loads(sys.argv[2]):
    try:
        exec(act)
    except PermissionError as error:
        assert "may not" in str(error), error
    else:
        done.append(act)
print(json.dumps(done))
"""
    ended = run(script, str(tmp_path), json.dumps(ACTS))
    assert ended.stdout.strip() == "[]", ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_text() == "as it was"


def test_it_may_load_what_is_python_but_no_file_that_was_open_before_grows(tmp_path):
    assert run("confine(Effort()); import colorsys; open(colorsys.__file__).read()").returncode == 0
    script = """
file = open(sys.argv[1], "wb", buffering=0)
confine(Effort())
try:
    file.write(b"x")
except OSError:
    sys.exit(0)
sys.exit("it was written")
"""
    assert run(script, str(tmp_path / "file")).returncode == 0
    assert (tmp_path / "file").read_bytes() == b""


TAKE = """
taken = []
for _ in range({}):
    taken.append(bytearray(b"x") * 10_000_000)
"""


def test_memory_and_time_that_a_process_takes_are_limited_and_only_its_own():
    ours = bytearray(b"x") * 300_000_000  # Linux adds that to the most that a process ever had
    tried = (
        ("watch_memory(100_000_000)" + TAKE.format(1000), TOO_MUCH_MEMORY),
        ("watch_memory(500_000_000)" + TAKE.format(10), 0),
        ("import time; watch_memory(200_000_000); time.sleep(0.2)", 0),
        ("confine(Effort(seconds=0))\nwhile True: pass", -signal.SIGXCPU),
        ("confine(Effort(memory_bytes=100_000_000)); bytearray(3_000_000_000)", None),
    )
    with ThreadPoolExecutor() as pool:
        all_ended = [*pool.map(run, (script for script, _ in tried))]
    assert ours
    for (script, status), ended in zip(tried, all_ended, strict=True):
        if status is None:
            assert ended.returncode == TOO_MUCH_MEMORY or "MemoryError" in ended.stderr, script
        else:
            assert ended.returncode == status, script
