"""`python -m tests.lab.clients.load`: how fast servers answer several clients at once.

The same questions to each server in turn, over and over, so that a machine that slows down slows
all alike. Every prompt is new to the server that it goes to: none has it in a cache.
"""

import json
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import httpx2
import typer

from engine.bench.prompts import BUILTIN
from models.starter import ensure_starter
from tests.lab.clients.__main__ import ENVIRONMENTS
from tests.lab.clients.servers import KINDS, model_name, serving

_QUESTIONS = tuple(text for _, text in BUILTIN[:8])
_LONG = "The river was low that summer, and the stones in it were warm. "  # 15 tokens
_BASELINE = "mlx-lm"


@dataclass(frozen=True, slots=True)
class Answer:
    """When an answer was asked for, when its pieces of text came, and how many tokens they were."""

    asked: float
    came: tuple[float, ...]
    tokens: int

    @property
    def first_seconds(self) -> float:
        return self.came[0] - self.asked

    @property
    def longest_pause_seconds(self) -> float:
        return max((late - early for early, late in pairwise(self.came)), default=0.0)


@dataclass(frozen=True, slots=True)
class Cell:
    """One server's answers to all questions, so many at a time."""

    answers: tuple[Answer, ...]

    @property
    def tokens_per_second(self) -> float:
        began = min(answer.asked for answer in self.answers)
        ended = max(answer.came[-1] for answer in self.answers)
        return sum(answer.tokens for answer in self.answers) / (ended - began)

    @property
    def first_seconds(self) -> float:
        return statistics.median(answer.first_seconds for answer in self.answers)


@dataclass(frozen=True, slots=True)
class Behind:
    """What somebody else's long prompt costs: the first token of a question asked behind it, and
    the longest pause of an answer that was being written when it came; both also without it."""

    first_alone: float
    first_behind: float
    pause_alone: float
    pause_during: float


def ask(address: str, model: str, text: str, *, most_tokens: int) -> Answer:
    """A greedy answer to `text`, streamed."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": most_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    came, tokens, asked = [], 0, time.perf_counter()
    url = f"{address}/v1/chat/completions"
    with httpx2.stream("POST", url, json=body, timeout=600, trust_env=False) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line.removeprefix("data: "))
            tokens = (chunk.get("usage") or {}).get("completion_tokens", tokens)
            if any(choice.get("delta", {}).get("content") for choice in chunk["choices"]):
                came.append(time.perf_counter())
    return Answer(asked, tuple(came), tokens)


def measure(address: str, model: str, *, streams: int, label: str, most_tokens: int) -> Cell:
    """All questions, `streams` at a time; `label` makes their prompts new."""
    texts = [f"{label}, {number}. {text}" for number, text in enumerate(_QUESTIONS)]
    with ThreadPoolExecutor(streams) as pool:
        answers = pool.map(lambda text: ask(address, model, text, most_tokens=most_tokens), texts)
        return Cell(tuple(answers))


def measure_behind(address: str, model: str, *, label: str, prompt_tokens: int) -> Behind:
    """A question behind a prompt of about `prompt_tokens`, while another answer is written."""
    question = _QUESTIONS[0]
    alone = ask(address, model, f"{label}, 1. {question}", most_tokens=8)
    undisturbed = ask(address, model, f"{label}, 2. {question}", most_tokens=96)
    with ThreadPoolExecutor(3) as pool:
        running = pool.submit(ask, address, model, f"{label}, 3. {question}", most_tokens=96)
        time.sleep(undisturbed.first_seconds * 1.5)
        long = f"{label}, 4. " + _LONG * (prompt_tokens // 15)
        pool.submit(ask, address, model, long, most_tokens=1)
        time.sleep(0.2)
        behind = pool.submit(ask, address, model, f"{label}, 5. {question}", most_tokens=8)
    return Behind(
        first_alone=alone.first_seconds,
        first_behind=behind.result().first_seconds,
        pause_alone=undisturbed.longest_pause_seconds,
        pause_during=running.result().longest_pause_seconds,
    )


def main(
    *,
    server: Annotated[list[str] | None, typer.Option(help="As of the clients; else all.")] = None,
    streams: Annotated[list[int] | None, typer.Option(help="At a time; else 1, 2, 4, 8.")] = None,
    rounds: Annotated[int, typer.Option(help="How often all is measured.")] = 3,
    max_tokens: Annotated[int, typer.Option(help="Of an answer.")] = 48,
    behind_tokens: Annotated[int, typer.Option(help="Of the long prompt; 0 leaves it out.")] = 3000,
    environments: Annotated[Path, typer.Option(help="Where servers write.")] = ENVIRONMENTS,
) -> None:
    """Tokens per second, seconds to the first token, and what a long prompt costs the others."""
    servers, widths = server or list(KINDS), streams or [1, 2, 4, 8]
    target = ensure_starter().path
    cells: dict[tuple[str, int], list[Cell]] = {}
    long: dict[str, list[Behind]] = {}
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(serving(name, target, environments / "servers"))
            for name in servers
        }
        models = {name: model_name(address) for name, address in running.items()}
        for name, address in running.items():
            ask(address, models[name], "Warm up.", most_tokens=8)
        for number in range(rounds):
            for width in widths:
                for name, address in running.items():
                    label = f"Round {number}, {width} at a time"
                    cell = measure(
                        address,
                        models[name],
                        streams=width,
                        label=label,
                        most_tokens=max_tokens,
                    )
                    cells.setdefault((name, width), []).append(cell)
                    print(f"{label}, {name}: {cell.tokens_per_second:.2f} tok/s", flush=True)
            for name, address in running.items() if behind_tokens else ():
                label = f"Round {number}"
                found = measure_behind(
                    address, models[name], label=label, prompt_tokens=behind_tokens
                )
                long.setdefault(name, []).append(found)
                print(f"{label}, {name}: {found}", flush=True)
    print("\n".join(_table(cells, servers, widths)))
    if long:
        print("\n".join(_long_table(long)))


def _table(
    cells: dict[tuple[str, int], list[Cell]], servers: Sequence[str], widths: Sequence[int]
) -> list[str]:
    lines = ["", "| at a time | server | tok/s | to mlx-lm | first token, s |", "|--|--|--|--|--|"]
    for width in widths:
        theirs = [cell.tokens_per_second for cell in cells.get((_BASELINE, width), [])]
        for name in servers:
            speeds = [cell.tokens_per_second for cell in cells[name, width]]
            ratio = "-"
            if theirs:
                pairs = zip(speeds, theirs, strict=True)
                ratio = f"{statistics.median(our / their for our, their in pairs):.2f}"
            first = statistics.median(cell.first_seconds for cell in cells[name, width])
            speed = f"{statistics.median(speeds):.2f} ({min(speeds):.2f}–{max(speeds):.2f})"
            lines.append(f"| {width} | {name} | {speed} | {ratio} | {first:.2f} |")
    return lines


def _long_table(long: dict[str, list[Behind]]) -> list[str]:
    head = "| server | first token alone, s | behind | longest pause alone, s | during |"
    lines = ["", head, "|--|--|--|--|--|"]
    for name, found in long.items():
        columns = [
            statistics.median(values)
            for values in zip(
                *((b.first_alone, b.first_behind, b.pause_alone, b.pause_during) for b in found),
                strict=True,
            )
        ]
        lines.append(f"| {name} | " + " | ".join(f"{value:.2f}" for value in columns) + " |")
    return lines


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
