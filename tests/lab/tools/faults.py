"""Faults of servers, each 20 times in one host: `python -m tests.lab.tools faults`."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.tools.protocol import Server
from tests.support.tools.host_process import HostProcess
from tests.support.tools.hosted import scripted

TIMES = 20
MEGABYTE = 1_000_000


WELL = scripted()


@dataclass(frozen=True)
class Fault:
    """A call of the tool `tool` with a text, after `seconds` of which it fails; or, without a tool,
    the start of a server."""

    name: str
    tool: str = ""
    text: str = ""
    seconds: float = 60.0
    ending: str = "failed"
    server: Server = WELL


FAULTS = (
    Fault("dies in a call", "die"),
    Fault("hangs in a call", "hang", seconds=0.3),
    Fault("is stopped in a call", "stop", seconds=0.3),
    Fault("answers late, after the call's time", "late", "0.4", seconds=0.2),
    Fault("answers with other ids", "wrong_id", seconds=0.3),
    Fault("other lines before its answer", "noise", ending="done"),
    Fault("a result of 100 MB in one line", "big", str(100 * MEGABYTE)),
    Fault("a line of 100 MB that is no message", "flood", str(100 * MEGABYTE)),
    Fault("100 MB of lines that are no messages", "many_lines", str(100 * MEGABYTE)),
    Fault("100 MB on standard error", "complain", str(100 * MEGABYTE), ending="done"),
    Fault("nests 200,000 deep", "deep"),
    Fault("20,000 requests of its own", "ask_back", "20000"),
    Fault("20,000 reports of progress", "report", "20000", ending="done"),
    Fault("a result that is not MCP", "nothing"),
    Fault("2.7 million lists in a result", "bomb", "lists"),
    Fault("two million numbers in a result", "bomb", "numbers"),
    Fault("a million numbers in a request of its own", "ask_bomb", ending="done"),
    Fault("dies when it starts", server=scripted("dies")),
    Fault("a program that is not there", server=Server("s", "no-such-program")),
    Fault("a schema nested 50,000 deep", server=scripted("deep")),
    Fault("a million tools", server=scripted("million")),
    Fault("a description and a schema of 1 MB", server=scripted("huge"), ending="running"),
    Fault("a list without end", server=scripted("endless"), ending="running"),
    Fault("an address where nobody is", server=Server("s", url="http://127.0.0.1:9/mcp")),
)


def fault_table() -> list[str]:
    """Run every fault. Returns the rows of a table in Markdown."""
    rows = [
        "| the server | as expected | the other server answers | host’s memory | left running |",
        "|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as name:
        for fault in FAULTS:
            started: set[psutil.Process] = set()
            with closing(HostProcess(Path(name))) as host:
                outcomes = list(_outcomes(host, fault, started))
                peak = _peak_bytes(host.process.pid) / MEGABYTE
            good, others = (sum(each) for each in zip(*outcomes, strict=True))
            _, left = psutil.wait_procs(started, 5)
            rows.append(
                f"| {fault.name} | {good} of {TIMES} | {others} of {TIMES} | {peak:.0f} MB "
                f"| {len(left)} of {len(started)} |"
            )
            print(rows[-1], file=sys.stderr)
    return [*rows, killed_row()]


def _outcomes(
    host: HostProcess, fault: Fault, started: set[psutil.Process]
) -> Iterator[tuple[bool, bool]]:
    """Whether each time the fault ended as expected, and whether another server still answers. Adds
    the processes of the host to `started`."""
    other = scripted(name="other")
    for _ in range(TIMES):
        state = host.start(fault.server, other)["s"]
        started.update(psutil.Process(host.process.pid).children(recursive=True))
        if fault.tool:
            ending = host.call(
                "s", fault.tool, f'{{"text": "{fault.text}"}}', seconds=fault.seconds
            )
            good = ending.ending == fault.ending and ending.text.count("\n") == 0
        else:
            good = state.state == fault.ending
        yield good, host.call("other", "echo", '{"text": "on"}').text == "on"
        host.start(other)


def killed_row() -> str:
    """The row for a host that is killed, each time with a server that ignores the end of its input
    and SIGTERM, and has started a process: whether all have ended within five seconds."""
    good = 0
    with tempfile.TemporaryDirectory() as name:
        for _ in range(TIMES):
            with closing(HostProcess(Path(name))) as host:
                host.start(scripted("stubborn"))
                host.call("s", "leave_child")
                children = psutil.Process(host.process.pid).children(recursive=True)
                host.process.kill()
                _, alive = psutil.wait_procs(children, 5)
                good += len(children) == 3 and not alive
    return f"| (the host is killed; all end) | {good} of {TIMES} | | | |"


def _peak_bytes(pid: int) -> int:
    memory = psutil.Process(pid).memory_info()
    return max(memory.rss, _high_water_bytes(pid))


def _high_water_bytes(pid: int) -> int:
    """The largest memory so far, where the system says it."""
    status = Path(f"/proc/{pid}/status")
    text = status.read_text() if status.exists() else "VmHWM: 0"
    return int(text.partition("VmHWM:")[2].split()[0]) * 1024
