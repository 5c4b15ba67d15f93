"""Other people's MCP servers in our host: `make tools`.

Installs them into .cache/tools, calls tools of each, and checks what they return.
"""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from engine.tools.protocol import Server
from tests.support.engine.ranks import free_ports
from tests.support.loopback import serving_on_loopback
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


def install():
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


def tried(folder, *, page, everything):
    """The rows of servers.jsonl: a server, and calls of its tools with a text that each result must
    hold, and how the call must end if not well.

    They work in `folder`. `page` is the address of a page that says "slipstream"; `everything`,
    for the server of all features over HTTP.
    """
    (folder / "notes.txt").write_text("milk and eggs")
    git = ("git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@b")
    subprocess.run(("git", "init", "-q", str(folder)), check=True)
    subprocess.run((*git, "add", "notes.txt"), check=True)
    subprocess.run((*git, "commit", "-qm", "Buy breakfast"), check=True)
    text = Path(__file__).with_name("servers.jsonl").read_text(encoding="utf-8")
    for name, value in {
        "cache": CACHE,
        "folder": folder,
        "page": page,
        "everything": everything,
    }.items():
        text = text.replace(f"{{{name}}}", str(value))
    return [json.loads(line) for line in text.splitlines()]


@contextmanager
def page_server(folder):
    """The address of a page on this machine."""
    (folder / "page.html").write_text("<title>A page</title><p>slipstream " + "word " * 50)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_): ...

    with serving_on_loopback(partial(Quiet, directory=str(folder))) as address:
        yield f"{address}/page.html"


@contextmanager
def everything_over_http():
    """The address of server-everything, which runs meanwhile."""
    (port,) = free_ports(1)
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


def try_all():
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
        for row in tried(folder, page=page, everything=everything):
            server = Server(**row["server"] | {"args": tuple(row["server"].get("args", ()))})
            began = time.monotonic()
            state = host.start(server)[server.name]
            seconds = time.monotonic() - began
            good = _tried(host, server, state, row["cases"])
            rows.append(
                f"| {row['title']} | {state.version} | {len(state.tools)} | {seconds:.1f} s "
                f"| {good} of {len(row['cases'])} |"
            )
        children = psutil.Process(host.process.pid).children(recursive=True)
        host.stdin.close()
        host.process.wait(60)
        _, left = psutil.wait_procs(children, 10)
        rows.append(f"\n{len(left)} processes are left.")
    return rows


def _tried(host, server, state, cases):
    """How many calls of a server end as expected. Says which do not."""
    if state.state != "running":
        print(f"{server.name}: {state.message}", file=sys.stderr)
        return 0
    good = 0
    for tool, arguments, holds, *ending in cases:
        result = host.call(server.name, tool, json.dumps(arguments))
        if [result.ending] == (ending or ["done"]) and holds.lower() in result.text.lower():
            good += 1
        else:
            print(f"{server.name}, {tool}: {result}", file=sys.stderr)
    return good


if __name__ == "__main__":
    print("\n".join(try_all()))
