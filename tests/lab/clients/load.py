"""`make benchmark-server`: how fast servers answer several clients at once.

The same questions to each server in turn, over and over, so that a machine that slows down slows
all alike. Every prompt is new to the server that it goes to: none has it in a cache.
"""

import json
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
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
    def first_seconds(self):
        return self.came[0] - self.asked

    @property
    def longest_pause_seconds(self):
        return max((late - early for early, late in pairwise(self.came)), default=0.0)


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs."""

    address: str
    model: str

    def ask(self, text, *, most_tokens):
        """A greedy answer to `text`, streamed."""
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": text}],
            "temperature": 0,
            "max_tokens": most_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        came, tokens, asked = [], 0, time.perf_counter()
        url = f"{self.address}/v1/chat/completions"
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

    def together(self, streams, label, *, most_tokens):
        """Tokens per second and the median time to the first token of all questions, `streams` at
        a time; `label` makes their prompts new."""
        texts = [f"{label}, {number}. {text}" for number, text in enumerate(_QUESTIONS)]
        with ThreadPoolExecutor(streams) as pool:
            answers = list(pool.map(lambda text: self.ask(text, most_tokens=most_tokens), texts))
        seconds = max(each.came[-1] for each in answers) - min(each.asked for each in answers)
        speed = sum(each.tokens for each in answers) / seconds
        return speed, median(each.first_seconds for each in answers)

    def beside_a_long_prompt(self, label, prompt_tokens):
        """The seconds to the first token of a question alone, and after the long prompt; the
        longest pause of an answer alone, and of one that was being written when that prompt
        came."""
        texts = [f"{label}, {number}. {_QUESTIONS[0]}" for number in range(5)]
        alone = self.ask(texts[1], most_tokens=8)
        undisturbed = self.ask(texts[2], most_tokens=96)
        with ThreadPoolExecutor(3) as pool:
            running = pool.submit(self.ask, texts[3], most_tokens=96)
            time.sleep(undisturbed.first_seconds * 1.5)
            pool.submit(self.ask, texts[0] + _LONG * (prompt_tokens // 15), most_tokens=1)
            time.sleep(0.2)
            late = pool.submit(self.ask, texts[4], most_tokens=8)
        pauses = (undisturbed.longest_pause_seconds, running.result().longest_pause_seconds)
        return (alone.first_seconds, late.result().first_seconds, *pauses)


def main(
    *,
    server: Annotated[list[str] | None, typer.Option(help="As of the clients; else all.")] = None,
    streams: Annotated[list[int] | None, typer.Option(help="At a time; else 1, 2, 4, 8.")] = None,
    rounds: Annotated[int, typer.Option(help="How often all is measured.")] = 3,
    max_tokens: Annotated[int, typer.Option(help="Of an answer.")] = 48,
    long_tokens: Annotated[int, typer.Option(help="Of the long prompt; 0 leaves it out.")] = 3000,
) -> None:
    """Tokens per second, seconds to the first token, and what a long prompt costs the others."""
    servers, widths = server or list(KINDS), streams or [1, 2, 4, 8]
    found, long = defaultdict(list), defaultdict(list)
    with ExitStack() as stack:
        running = {}
        for name in servers:
            target = ensure_starter().path
            address = stack.enter_context(serving(name, target, ENVIRONMENTS / "servers"))
            running[name] = Server(address, model_name(address))
            running[name].ask("Warm up.", most_tokens=8)
        for number in range(rounds):
            for width in widths:
                for name, each in running.items():
                    label = f"Round {number}, {width} at a time"
                    measured = each.together(width, label, most_tokens=max_tokens)
                    found[width, name].append(measured)
                    print(f"{label}, {name}: {measured[0]:.2f} tok/s", flush=True)
            for name, each in running.items() if long_tokens else ():
                long[name].append(each.beside_a_long_prompt(f"Round {number}", long_tokens))
    print("\n| at a time | server | tok/s | to mlx-lm | first token, s |\n|--|--|--|--|--|")
    for (width, name), measures in found.items():
        print(_row(width, name, measures, found.get((width, _BASELINE), ())))
    heads = (
        "server",
        "first token alone, s",
        "after a long prompt",
        "longest pause alone",
        "during",
    )
    print(f"\n| {' | '.join(heads)} |\n|--|--|--|--|--|")
    for name, seconds in long.items():
        columns = [f"{median(values):.2f}" for values in zip(*seconds, strict=True)]
        print(f"| {name} | {' | '.join(columns)} |")


def _row(width, name, measures, baseline):
    speeds = [speed for speed, _ in measures]
    ratios = [our / their for our, (their, _) in zip(speeds, baseline, strict=False)]
    ratio = f"{median(ratios):.2f}" if ratios else "-"
    first = median(first for _, first in measures)
    speed = f"{median(speeds):.2f} ({min(speeds):.2f}–{max(speeds):.2f})"
    return f"| {width} | {name} | {speed} | {ratio} | {first:.2f} |"


if __name__ == "__main__":
    typer.run(main)
