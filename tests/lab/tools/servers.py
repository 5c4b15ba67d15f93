"""Other people's MCP servers in our host: `python -m tests.lab.tools servers`.

Installs them into .cache/tools, calls tools of each, and checks what they return.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from engine.tools.protocol import Result, Server, State
from tests.support.tools.host_process import ROOT, HostProcess

CACHE = ROOT / ".cache" / "tools"
FETCH = ("--ignore-robots-txt", "--allow-private-ips")
NPM = tuple(
    f"@modelcontextprotocol/server-{name}"
    for name in ("filesystem", "everything", "memory", "sequential-thinking")
)
PYPI = {  # by environments: one of them needs an older SDK, and does not say so
    "pypi": ("mcp-server-git", "mcp-server-time", "mcp-server-fetch"),
    "older": ("mcp-server-sqlite", "mcp<2"),
}


@dataclass(frozen=True)
class Case:
    """A call of a tool, a text that its result must hold, and how the call must end."""

    tool: str
    arguments: dict[str, Any]
    holds: str
    ending: str = "done"


@dataclass(frozen=True)
class Tried:
    """A server and its calls."""

    title: str
    server: Server
    cases: tuple[Case, ...]


def install() -> None:
    """Install the servers that are missing."""
    npm = [name for name in NPM if not (CACHE / "npm" / "node_modules" / name).is_dir()]
    if npm:
        words = ("npm", "install", "--no-fund", "--no-audit", "--prefix", str(CACHE / "npm"), *npm)
        subprocess.run(words, check=True, stdout=sys.stderr)
    for name, packages in PYPI.items():
        python = CACHE / name / "bin" / "python"
        if not (python.parent / packages[0]).exists():
            subprocess.run((sys.executable, "-m", "venv", str(CACHE / name)), check=True)
            subprocess.run((str(python), "-m", "pip", "install", "--quiet", *packages), check=True)


def tried(folder: Path, *, page: str, everything: str) -> list[Tried]:
    """The servers with their calls, which work in `folder`. `page` is the address of a page that
    says "slipstream"; `everything`, that of the server of all features over HTTP."""
    bin, npm = CACHE / "pypi" / "bin", CACHE / "npm" / "node_modules" / ".bin"
    (folder / "notes.txt").write_text("milk and eggs")
    git = ("git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@b")
    subprocess.run(("git", "init", "-q", str(folder)), check=True)
    subprocess.run((*git, "add", "notes.txt"), check=True)
    subprocess.run((*git, "commit", "-qm", "Buy breakfast"), check=True)
    path = str(folder / "notes.txt")
    all_features = (
        Case("echo", {"message": "hello"}, "hello"),
        Case("get-sum", {"a": 2, "b": 40}, "42"),
        Case("get-tiny-image", {}, "[image: image/png,"),
        Case("get-structured-content", {"location": "Chicago"}, "temperature"),
        Case("get-resource-links", {"count": 2}, "[link:"),
        Case("trigger-long-running-operation", {"duration": 1, "steps": 2}, "2"),
        Case("get-sum", {"a": "two"}, "", "failed"),
    )
    return [
        Tried(
            "server-filesystem",
            Server("filesystem", str(npm / "mcp-server-filesystem"), (str(folder),)),
            (
                Case("read_text_file", {"path": path}, "milk and eggs"),
                Case("list_directory", {"path": str(folder)}, "notes.txt"),
                Case("read_text_file", {"path": "/etc/passwd"}, "denied", "failed"),
            ),
        ),
        Tried(
            "server-everything",
            Server("everything", str(npm / "mcp-server-everything")),
            all_features,
        ),
        Tried(
            "server-everything, HTTP", Server("everything over HTTP", url=everything), all_features
        ),
        Tried(
            "server-memory, by npx",
            Server(
                *("memory", "npx", ("-y", "@modelcontextprotocol/server-memory")),
                env={"MEMORY_FILE_PATH": str(folder / "memory.json")},
                cwd=str(CACHE / "npm"),
            ),
            (
                Case(
                    "create_entities",
                    {
                        "entities": [
                            {"name": "Ada", "entityType": "person", "observations": ["writes"]}
                        ]
                    },
                    "Ada",
                ),
                Case("search_nodes", {"query": "writes"}, "Ada"),
            ),
        ),
        Tried(
            "server-sequential-thinking",
            Server("thinking", str(npm / "mcp-server-sequential-thinking")),
            (
                Case(
                    "sequentialthinking",
                    {
                        "thought": "one",
                        "nextThoughtNeeded": False,
                        "thoughtNumber": 1,
                        "totalThoughts": 1,
                    },
                    "thoughtNumber",
                ),
            ),
        ),
        Tried(
            "mcp-server-git",
            Server("git", str(bin / "mcp-server-git"), ("--repository", str(folder))),
            (
                Case("git_log", {"repo_path": str(folder)}, "Buy breakfast"),
                Case("git_status", {"repo_path": str(folder)}, "branch"),
            ),
        ),
        Tried(
            "mcp-server-sqlite",
            Server(
                "sqlite",
                str(CACHE / "older" / "bin" / "mcp-server-sqlite"),
                ("--db-path", str(folder / "a.db")),
            ),
            (
                Case("create_table", {"query": "CREATE TABLE t (n INTEGER)"}, "success"),
                Case("write_query", {"query": "INSERT INTO t VALUES (41), (42)"}, "2"),
                Case("read_query", {"query": "SELECT sum(n) AS s FROM t"}, "83"),
            ),
        ),
        Tried(
            "mcp-server-time",
            Server("time", str(bin / "mcp-server-time"), ("--local-timezone", "Europe/Berlin")),
            (
                Case(
                    "convert_time",
                    {
                        "source_timezone": "Europe/Berlin",
                        "time": "12:00",
                        "target_timezone": "Asia/Tokyo",
                    },
                    "Asia/Tokyo",
                ),
                Case("get_current_time", {"timezone": "Mars/Base"}, "", "failed"),
            ),
        ),
        Tried(
            "mcp-server-fetch",
            Server(
                "fetch",
                str(bin / "mcp-server-fetch"),
                ("--ignore-robots-txt", "--allow-private-ips"),
            ),
            (Case("fetch", {"url": page}, "slipstream"),),
        ),
    ]


@contextmanager
def page_server(folder: Path) -> Iterator[str]:
    """The address of a page on this machine."""
    (folder / "page.html").write_text("<title>A page</title><p>slipstream " + "word " * 50)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/page.html"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def everything_over_http() -> Iterator[str]:
    """The address of server-everything, which runs meanwhile."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = CACHE / "npm" / "node_modules" / ".bin" / "mcp-server-everything"
    process = subprocess.Popen(
        (str(program), "streamableHttp"),
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def try_all() -> list[str]:
    """Run every call. Returns the rows of a table in Markdown."""
    install()
    rows = [
        "| server | its own words | tools | starts in | calls as expected |",
        "|---|---|---|---|---|",
    ]
    with (
        TemporaryDirectory() as name,
        TemporaryDirectory() as pages,
        page_server(Path(pages)) as page,
        everything_over_http() as everything,
        closing(HostProcess(Path(name) / "home")) as host,
    ):
        folder = Path(name).resolve() / "work"
        folder.mkdir()
        for each in tried(folder, page=page, everything=everything):
            began = time.monotonic()
            state = host.start(each.server)[each.server.name]
            seconds = time.monotonic() - began
            good = _tried(host, each, state)
            rows.append(
                f"| {each.title} | {state.version} | {len(state.tools)} | {seconds:.1f} s "
                f"| {good} of {len(each.cases)} |"
            )
        children = psutil.Process(host.process.pid).children(recursive=True)
        host.stdin.close()
        host.process.wait(60)
        _, left = psutil.wait_procs(children, 10)
        rows.append(f"\n{len(left)} processes are left.")
    return rows


def _tried(host: HostProcess, each: Tried, state: State) -> int:
    """How many calls of a server end as expected. Says which do not."""
    if state.state != "running":
        print(f"{each.title}: {state.message}", file=sys.stderr)
        return 0
    good = 0
    for case in each.cases:
        result = host.call(each.server.name, case.tool, json.dumps(case.arguments))
        if _as_expected(case, result):
            good += 1
        else:
            print(f"{each.title}, {case.tool}: {result}", file=sys.stderr)
    return good


def _as_expected(case: Case, result: Result) -> bool:
    return result.ending == case.ending and case.holds.lower() in result.text.lower()
