"""Ten tasks for a real model with other people's servers: how many it solves with its calls held to
their schemas, and how many without.

`python -m tests.lab.tools.tasks MODEL SERVERS [--only NUMBER...] [--out FOLDER]`: MODEL as for
`slipstream --target`; SERVERS is the folder into which `python -m tests.lab.tools servers` installs
them. Greedy. Writes a short transcript of each task into FOLDER, and prints a line for each and how
many are solved. Each task offers few tools; all run unasked, in a folder that is made for it.
"""

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import uuid4
from zoneinfo import ZoneInfo

from rich.console import Console

from engine.cli.folders import target_folder
from engine.cli.tools import AnswerInSteps, ToolProcess, Tools
from engine.conversation.loading import load
from engine.conversation.pair import make_policy
from engine.conversation.session import Session
from engine.events import Prefill, Text
from engine.request import ChatMessage, Request, Sampling
from engine.tools.protocol import OWN, Server, Start

SYSTEM = "You help with tools. Call one if you need it. Then answer in one short sentence."
TRANSCRIPTS = Path(__file__).with_name("transcripts")
ROME, TOKYO = ZoneInfo("Europe/Rome"), ZoneInfo("Asia/Tokyo")


@dataclass(frozen=True)
class Task:
    """A question about a folder, the tools that it offers, and a check of the answer."""

    question: str
    server: str
    tools: tuple[str, ...]
    solved: Callable[[str, Path], bool]


def says(*words: str) -> Callable[[str, Path], bool]:
    return lambda answer, folder: all(word.lower() in answer.lower() for word in words)


def in_tokyo() -> str:
    return f"{datetime.now(ROME).replace(hour=9, minute=0).astimezone(TOKYO):%H:%M}"


FILES = ("read_text_file", "list_directory", "write_file")
SQL = ("read_query", "list_tables")
TASKS = (
    Task("What is the code in {0}/notes.txt?", "files", FILES, says("7391")),
    Task("Which files are in the directory {0}/docs?", "files", FILES, says("plan", "budget")),
    Task(
        "Write the word hello into the file {0}/out.txt.",
        "files",
        FILES,
        lambda answer, folder: "hello" in _text(folder / "out.txt"),
    ),
    Task(
        "{0}/pointer.txt names another file. What is the secret word in that other file?",
        "files",
        FILES,
        says("saffron"),
    ),
    Task("How many rows has the table books?", "sql", SQL, says("7")),
    Task("What is the title of the oldest book in the table books?", "sql", SQL, says("Emma")),
    Task(
        "What is the message of the latest commit in {0}?", "git", ("git_log",), says("breakfast")
    ),
    Task("Look into the memory: where does Ada live?", "memory", ("search_nodes",), says("Turin")),
    Task(
        "It is 09:00 in Europe/Rome. What time is it in Asia/Tokyo then?",
        "time",
        ("convert_time",),
        lambda answer, folder: in_tokyo() in answer or in_tokyo().lstrip("0") in answer,
    ),
    Task("What is 4711 times 1234?", OWN, ("calculate",), says("5813374")),
)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def furnish(folder: Path) -> None:
    """Make the files that the tasks are about."""
    (folder / "docs").mkdir()
    for name, text in {
        "notes.txt": "Buy milk.\nThe code is 7391.\n",
        "docs/plan.md": "# Plan\n",
        "docs/budget.csv": "rent,900\n",
        "pointer.txt": f"See {folder}/other.txt.\n",
        "other.txt": "The secret word is saffron.\n",
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    books = [("Emma", 1815), ("Ulysses", 1922), ("Dune", 1965), ("Solaris", 1961)]
    books += [("Walden", 1854), ("Beloved", 1987), ("Middlemarch", 1871)]
    with closing(sqlite3.connect(folder / "books.db")) as database, database:
        database.execute("CREATE TABLE books (title TEXT, year INTEGER)")
        database.executemany("INSERT INTO books VALUES (?, ?)", books)
    known = {"type": "entity", "name": "Ada", "entityType": "person"}
    known |= {"observations": ["Ada lives in Turin"]}  # type: ignore[dict-item]
    (folder / "memory.json").write_text(json.dumps(known) + "\n", encoding="utf-8")
    git = ("git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "notes.txt"), ("commit", "-qm", "Buy breakfast")):
        subprocess.run((*git, *words), check=True)


def server_of(name: str, folder: Path, servers: Path) -> tuple[Server, ...]:
    """The server of a task; none for the tools that come along."""
    bin, npm = servers / "pypi" / "bin", servers / "npm" / "node_modules" / ".bin"
    older = servers / "older" / "bin"
    memory = {"MEMORY_FILE_PATH": str(folder / "memory.json")}
    return {
        "files": (Server(name, str(npm / "mcp-server-filesystem"), (str(folder),)),),
        "sql": (
            Server(name, str(older / "mcp-server-sqlite"), ("--db-path", str(folder / "books.db"))),
        ),
        "git": (Server(name, str(bin / "mcp-server-git"), ("--repository", str(folder))),),
        "memory": (Server(name, str(npm / "mcp-server-memory"), env=memory),),
        "time": (Server(name, str(bin / "mcp-server-time")),),
        OWN: (),
    }[name]


def tried(session: Session, task: Task, servers: Path, *, held: bool) -> Iterator[str]:
    """The lines of a task's transcript; the last says whether it is solved."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        for line in _tried(session, task, servers, folder, held=held):
            yield line.replace(str(folder), "FOLDER")


def _tried(
    session: Session, task: Task, servers: Path, folder: Path, *, held: bool
) -> Iterator[str]:
    furnish(folder)
    process = ToolProcess(Start(server_of(task.server, folder, servers)))
    with closing(process):
        offered = [
            tool
            for tool in process.tools()
            if tool.server == task.server and tool.name in task.tools
        ]
        assert len(offered) == len(task.tools), process.failures
        quiet = Console(quiet=True)
        tools = Tools(process, offered, quiet, allowed=[tool.name for tool in offered])
        if not held:
            tools.json = tools.json.replace('"strict": true', '"strict": false')
        question, began = task.question.format(folder), time.monotonic()
        answer = AnswerInSteps(
            lambda more, may_call: session.answer(
                [ChatMessage("system", SYSTEM), ChatMessage("user", question), *more],
                Request(sampling=Sampling(), max_tokens=160, may_call=may_call),
                tools=tools.json,
                generation=uuid4().hex,
            ),
            tools,
            question=question,
        )
        yield f"**{question}** ({', '.join(tool.name for tool in offered)})"
        for events in answer.generations():
            heard = list(events)
            read = [event for event in heard if isinstance(event, Prefill)][-1]
            said = "".join(event.delta for event in heard if isinstance(event, Text))
            yield f"read {read.total - read.reused} of {read.total} rows"
            yield f"```\n{said.strip().replace('```', '···')}\n```"
        for step in answer.steps:
            for call in step.calls:
                yield f"{call.state}: {call.result[:200]!r}"
        yield f"{time.monotonic() - began:.0f} s"
        yield "solved" if task.solved(answer.content, folder) else "not solved"


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="tasks")
    parser.add_argument("model")
    parser.add_argument("servers", type=Path)
    parser.add_argument("--only", type=int, nargs="*", default=range(1, len(TASKS) + 1))
    parser.add_argument("--out", type=Path, default=TRANSCRIPTS)
    options = parser.parse_args(words)
    servers = options.servers.resolve()
    target = load(target_folder(options.model))
    session = Session(target, drafter="suffix", policy=make_policy("8"))
    counts = {"held": 0, "free": 0}
    for number in options.only:
        for name in counts:
            lines = list(tried(session, TASKS[number - 1], servers, held=name == "held"))
            counts[name] += lines[-1] == "solved"
            options.out.mkdir(parents=True, exist_ok=True)
            path = options.out / f"{number:02}-{name}.md"
            path.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
            print(f"{number:2} {name:5} {lines[-1]}, {lines[-2]}", flush=True)
    for name, count in counts.items():
        print(f"{name}: {count} of {len(options.only)} solved")


if __name__ == "__main__":
    main(sys.argv[1:])
