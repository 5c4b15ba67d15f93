"""The conversations that the starter's drafter learns from, in the target's own words.

    python answer.py asked.jsonl.gz ANSWERS --target TARGET --minutes 5

Thousands of conversations are written at once; as one of them ends, the next takes its slot. An
answer that is followed by another is followed first by what the target thinks that the user would
say. Needs tokenizers.
"""

import argparse
import gzip
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from target import Target
from tokenizers import Tokenizer

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
ENDS = (0, 2)
LONGEST_USER, LONGEST_ANSWER, LONGEST = 160, 640, 2000
STEPS = 16  # between two looks at who is done
SHARD = 20_000  # conversations


@dataclass(frozen=True)
class Conversation:
    """Token ids, and where the target's answers stand among them: (first, behind the last)."""

    tokens: Sequence[int]
    said: list[tuple[int, int]]


@dataclass
class Open:
    """A conversation on its way. `persona`: so many tokens give way to the plain system prompt
    when the user has spoken."""

    tokens: list[int]
    temperature: float
    longest: int
    answers: int  # still to be given
    persona: int = 0
    imagines: bool = False  # what is written next is the user's turn
    said: list[tuple[int, int]] = field(default_factory=list)


class Script:
    """What is to be written next in a conversation."""

    def __init__(self, target: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
        self._plain = self._opened(SYSTEM)
        self._user = self.encode("\n<|im_start|>user\n")
        self._assistant = self.encode("<|im_end|>\n<|im_start|>assistant\n")

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _opened(self, system: str) -> list[int]:
        return self.encode(f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n")

    def begin(self, line: dict[str, Any]) -> Open:
        """A line of `ask.py`."""
        how = {name: line[name] for name in ("temperature", "longest", "answers")}
        if "prompt" in line:
            text = self.encode(line["prompt"])[: LONGEST - 700]
            return Open(self._plain + text + self._assistant, **how)
        opening = self._opened(line["system"]) if line["system"] else self._plain
        begun = opening + (self.encode(line["begin"]) if line["begin"] else [])
        return Open(begun, persona=len(opening), imagines=True, **how)

    def go_on(self, one: Open, new: list[int]) -> bool:
        """`new` was written in `one`; whether more is to be."""
        ended = new[-1] in ENDS
        if one.imagines:
            if not ended or len(new) < 3:
                return False
            if one.persona:
                one.tokens, one.persona = self._plain + one.tokens[one.persona :], 0
            one.tokens = one.tokens + new[:-1] + self._assistant
            one.imagines = False
            return len(one.tokens) < LONGEST - 64
        one.said.append((len(one.tokens), len(one.tokens) + len(new)))
        one.tokens = one.tokens + new
        one.answers -= 1
        if not ended or not one.answers or len(one.tokens) > LONGEST - 300:
            return False
        one.tokens = one.tokens + self._user
        one.imagines = True
        return True


class Slots:
    """As many conversations at once, each as long as it happens to be."""

    def __init__(self, target: Target, count: int, longest: int = LONGEST + 48) -> None:
        def tensor(kind: torch.dtype, *shape: int) -> torch.Tensor:
            return torch.zeros(count, *shape, dtype=kind, device=target.device)

        self._target, self._longest = target, longest
        shape = (len(target.layers), 2, count, target.pairs, longest, target.width)
        self._caches = torch.zeros(shape, dtype=target.kind, device=target.device)
        self._lengths, self._latest = tensor(torch.long), tensor(torch.long)
        self._new = tensor(torch.int32, LONGEST_ANSWER)
        self._count, self._most = tensor(torch.long), tensor(torch.long)
        self._temperatures = tensor(torch.float32)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._all = torch.arange(count, device=target.device)
        self.open: list[Open | None] = [None] * count

    @torch.no_grad()
    def fill(self, some: dict[int, Open]) -> None:
        """Let conversations begin, or go on, in slots that are free."""
        device, group = self._target.device, list[tuple[int, Open]]()
        for slot, one in sorted(some.items(), key=lambda item: len(item[1].tokens)):
            if group and (len(group) + 1) * len(one.tokens) > 40_000:
                self._read(group)
                group = []
            group.append((slot, one))
            self.open[slot] = one
        if group:
            self._read(group)
        slots = torch.tensor(list(some), device=device)
        most = [
            min(LONGEST_USER if one.imagines else one.longest, self._longest - len(one.tokens))
            for one in some.values()
        ]
        warmth = [0.9 if one.imagines else one.temperature for one in some.values()]
        self._most[slots] = torch.tensor(most, device=device)
        self._count[slots] = 0
        self._temperatures[slots] = torch.tensor(warmth, device=device)

    def _read(self, group: list[tuple[int, Open]]) -> None:
        device, longest = self._target.device, len(group[-1][1].tokens) - 1
        padded = [one.tokens[:-1] + [0] * (longest + 1 - len(one.tokens)) for _, one in group]
        slots = torch.tensor([slot for slot, _ in group], device=device)
        caches = list[torch.Tensor](self._caches)
        self._target.read(torch.tensor(padded, device=device), caches=caches)
        for cache, read in zip(self._caches, caches, strict=True):
            cache[:, slots, :, :longest] = read
        counts = [len(one.tokens) - 1 for _, one in group]
        self._lengths[slots] = torch.tensor(counts, device=device)
        self._latest[slots] = torch.tensor([one.tokens[-1] for _, one in group], device=device)

    @torch.no_grad()
    def go_on(self, steps: int) -> None:
        """Write up to so many tokens in each slot."""
        if self._target.device == "cpu":
            for _ in range(steps):
                self._step()
            return
        if self._graph is None:  # launched one by one, the kernels would wait for Python
            self._step()
            self._graph, steps = torch.cuda.CUDAGraph(), steps - 1
            with torch.cuda.graph(self._graph):
                self._step()
        for _ in range(steps):
            self._graph.replay()

    def _step(self) -> None:
        going, place = self._going(), self._count.clamp(max=LONGEST_ANSWER - 1)
        caches = self._caches
        if self._target.device == "cpu":  # a CPU reads what is there, a graph has fixed sizes
            caches = caches[..., : int(self._lengths.max()) + 1, :]
        logits = self._target.go_on(self._latest, self._lengths, caches).float()
        hot = self._temperatures[:, None]
        race = torch.empty_like(logits).exponential_().log_()  # who is first is drawn fairly
        chosen = torch.where(hot > 0, logits / hot.clamp(min=1e-3) - race, logits).argmax(-1)
        before = self._new[self._all, place]
        self._new[self._all, place] = torch.where(going, chosen.int(), before)
        self._latest.copy_(torch.where(going, chosen, self._latest))
        self._lengths += going
        self._count += going
        ended = going & ((chosen == ENDS[0]) | (chosen == ENDS[1]))
        self._most.copy_(torch.where(ended, self._count, self._most))

    def _going(self) -> torch.Tensor:
        return self._count < self._most

    def done(self) -> Iterator[tuple[int, Open, list[int]]]:
        """The slots that are done, and what was written there."""
        still, counts = self._going().tolist(), self._count.tolist()
        slots = [i for i, one in enumerate(self.open) if one is not None and not still[i]]
        for slot, new in zip(slots, self._new[slots].tolist(), strict=True):
            one = self.open[slot]
            if one is not None:
                self.open[slot] = None
                yield slot, one, new[: counts[slot]]


def answer(
    asked: Path, out: Path, target: Target, folder: Path, minutes: float, slots: int
) -> None:
    """Write conversations for some minutes, to new shards in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    script, began, finished = Script(folder), time.monotonic(), list[Conversation]()
    said = steps = 0
    with gzip.open(asked, "rt") as file:
        lines = (json.loads(line) for line in file)
        desk = Slots(target, slots)
        more = {slot: script.begin(line) for slot, line in zip(range(slots), lines, strict=False)}
        while more or any(desk.open):
            if more:
                desk.fill(more)
            more = {}
            desk.go_on(STEPS)
            steps += STEPS
            late = time.monotonic() - began > 60 * minutes
            for slot, one, new in desk.done():
                if script.go_on(one, new) and not late:
                    more[slot] = one
                    continue
                if one.said:
                    finished.append(Conversation(one.tokens, one.said))
                    said += sum(end - start for start, end in one.said)
                line = None if late else next(lines, None)
                if line is not None:
                    more[slot] = script.begin(line)
            if steps % (64 * STEPS) == 0:
                seconds = time.monotonic() - began
                print(f"{steps} steps, {said} tokens said, {said / seconds:.0f}/s", flush=True)
            if late or len(finished) >= SHARD:
                _write_shard(out, finished)
                finished = []
            if late:
                break
    if finished:
        _write_shard(out, finished)
    print(f"{said} tokens said in {time.monotonic() - began:.0f} s", flush=True)


def _write_shard(out: Path, some: list[Conversation]) -> None:
    number = len(list(out.glob("*.safetensors")))
    spans = [(i, start, end) for i, one in enumerate(some) for start, end in one.said]
    tensors = {
        "tokens": torch.tensor([t for one in some for t in one.tokens], dtype=torch.int32),
        "lengths": torch.tensor([len(one.tokens) for one in some], dtype=torch.int32),
        "said": torch.tensor(spans, dtype=torch.int32).reshape(-1, 3),
    }
    partial = out / f".{number:05}"
    save_file(tensors, partial)
    partial.replace(out / f"{number:05}.safetensors")


def read_conversations(folder: Path) -> list[Conversation]:
    """All that was written."""
    found = []
    for path in sorted(folder.glob("*.safetensors")):
        shard, place = load_file(path), 0
        some = list[Conversation]()
        tokens = shard["tokens"].numpy()
        for length in shard["lengths"].tolist():
            some.append(Conversation(tokens[place : place + length], []))
            place += length
        for i, start, end in shard["said"].tolist():
            some[i].said.append((start, end))
        found += some
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("asked", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--slots", type=int, default=2048)
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    answer(
        given.asked, given.out, Target(given.target, device), given.target, given.minutes,
        given.slots,
    )  # fmt: skip
