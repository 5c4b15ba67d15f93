"""What one process keeps on disk and another reads, and what a killed one leaves."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.conversation.kept_blocks import held_bytes
from engine.request import ChatMessage
from models.files import models_folder
from models.starter import STARTER
from tests.support.engine.kept import INSTRUCTED, ROWS, ask, check, files, new
from tests.support.engine.sessions import reused_of, tokens_of

pytestmark = pytest.mark.usefixtures("on_the_cpu")


_CHILD = """
import json, sys
from pathlib import Path
from time import perf_counter
from engine.events import Prefill, Text
from engine.conversation.kept_blocks import KeptBlocks
from engine.conversation.loading import load
from engine.request import Request, Sampling, asked
from engine.conversation.session import Session
from models.model_folder import inspect
target, drafter, folder, question = sys.argv[1:]
document = Path("CONTRIBUTING.md").read_text(encoding="utf-8")[:4_200]
kept = KeptBlocks(Path(folder)) if folder else None
session = Session(load(inspect(Path(target))), drafter=drafter, kept=kept)
request = Request(sampling=Sampling(), max_tokens=16, keep_as=("a" * 64,))
began, first, events = perf_counter(), None, []
for event in session.answer(asked(f"{document}\\n\\n{question}").messages, request):
    events.append(event)
    if isinstance(event, Text) and first is None:
        first = perf_counter() - began
stats, written = events[-1].stats, perf_counter()
while session.keep():
    pass
print(json.dumps({
    "text": "".join(event.delta for event in events if isinstance(event, Text)),
    "first_text_seconds": first, "prompt": stats.prompt_tokens, "reused": stats.reused_tokens,
    "proposed": stats.proposed, "accepted": stats.accepted, "drafter": session.drafter.name,
    "keeping_seconds": perf_counter() - written,
}))
"""


def in_a_process(folder, question):
    """What a process of its own answered about a document, and how fast."""
    target = models_folder() / STARTER.name
    if not target.is_dir():
        pytest.skip("the starter model is not here")
    command = [sys.executable, "-c", _CHILD, str(target), "head", str(folder or ""), question]
    root = Path(__file__).parents[4]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    told = json.loads(ended.stdout.splitlines()[-1])
    print({name: value for name, value in told.items() if name != "text"})
    return told


@pytest.mark.slow
@pytest.mark.starter
def test_a_second_conversation_about_a_document_starts_at_once(tmp_path):
    folder, question = tmp_path / "kept", "Which words does the glossary list first?"
    first = in_a_process(folder, "What is a draft?")
    without = in_a_process(None, question)
    again = in_a_process(folder, question)
    print(f"{held_bytes(folder):,} bytes on disk")
    assert first["reused"] == without["reused"] == 0
    assert again["reused"] == 1024 < again["prompt"]
    assert again["text"] == without["text"]


_WRITER = """
import sys
import time
from pathlib import Path
import engine.conversation.kept_prefixes, engine.core.decoder
from engine.conversation.kept_blocks import KeptBlocks
from engine.conversation.loading import load
from engine.conversation.session import Session
from engine.request import ChatMessage, Request, Sampling
from models.model_folder import inspect
target, folder, rows = sys.argv[1:]
engine.conversation.kept_prefixes.PREFILL_ROWS = engine.core.decoder.PREFILL_ROWS = int(rows)
session = Session(load(inspect(Path(target))), kept=KeptBlocks(Path(folder), most_bytes=1 << 30))
request = Request(sampling=Sampling(), max_tokens=1, keep_instructions=True)
said = [ChatMessage("system", "Answer in a few words. " * 8), ChatMessage("user", "Why?")]
for _ in session.answer(said, request):
    pass
print("read", flush=True)
while session.keep():
    pass
print("kept", flush=True)
"""


@pytest.mark.slow
def test_a_kill_while_it_is_written_leaves_nothing_half(targets, folder):
    """Twenty kills, later and later: what is there is whole, and answers are as without it."""
    target = targets("qwen3_5")
    command = [sys.executable, "-c", _WRITER, str(target.folder.path), str(folder), str(ROWS)]
    system, said = ChatMessage("system", "Answer in a few words. " * 8), ("Why?",)
    expected = tokens_of(ask(new(target, None), *said, system=system))
    left, reused = set[int](), set[int]()
    for kill in range(20):
        process = subprocess.Popen(
            command, cwd=Path(__file__).parents[4], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "read\n"
        time.sleep(0.012 * kill)
        process.kill()
        process.communicate()
        left.add(len(files(folder)))
        session = new(target, folder)
        events = list(session.answer([system, ChatMessage("user", said[0])], INSTRUCTED))
        assert tokens_of(events) == expected
        reused.add(reused_of(events))
        check(session)
        shutil.rmtree(folder, ignore_errors=True)
    assert len(left) > 2, "no kill came while it was being written"
    assert reused == {0, (len(system.content) + 2) // ROWS * ROWS}, "states are there or not"
