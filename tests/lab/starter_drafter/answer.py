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

import cpu_kernels
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from target import Target
from tokenizers import Tokenizer

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
ENDS = (0, 2)
LONGEST_USER, LONGEST_ANSWER, LONGEST = 160, 640, 2000
SPARE = 48  # tokens of a slot, for what stands around a turn
STEPS = 16  # between two looks at who is done
SHARD = 20_000  # conversations
WINDOW = 64  # the latest tokens, which a penalty for repetition is for, as in the engine
KEPT = (10, 20, 30)  # layers whose states can be kept: a CPU reads no faster than it answers


@dataclass(frozen=True)
class Conversation:
    """Token ids, and where the target's answers stand among them: (first, behind the last).

    Where they were kept: `states` (tokens, layers + 1, hidden) behind each layer of `KEPT` and the
    last one's behind the final norm, `totals` (tokens,) the logarithm of the sum of what the
    target thought of the next token; of the last token they mean nothing.
    """

    tokens: Sequence[int]
    said: list[tuple[int, int]]
    states: torch.Tensor | None = None
    totals: torch.Tensor | None = None


@dataclass
class Open:
    """A conversation on its way. `penalty`: a token that was among the latest counts as less by so
    much; `persona`: so many tokens give way to the plain system prompt when the user has spoken."""

    tokens: list[int]
    temperature: float
    penalty: float
    longest: int
    answers: int  # still to be given
    persona: int = 0
    imagines: bool = False  # what is written next is the user's turn
    said: list[tuple[int, int]] = field(default_factory=list)


class Script:
    """What is to be written next in a conversation of up to about `longest` tokens."""

    def __init__(self, target: Path, longest: int) -> None:
        self._longest = longest
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
        how = {name: line[name] for name in ("temperature", "penalty", "longest", "answers")}
        if "prompt" in line:
            text = self.encode(line["prompt"])[: self._longest - 700]
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
            return len(one.tokens) < self._longest - 64
        one.said.append((len(one.tokens), len(one.tokens) + len(new)))
        one.tokens = one.tokens + new
        one.answers -= 1
        if not ended or not one.answers or len(one.tokens) > self._longest - 300:
            return False
        one.tokens = one.tokens + self._user
        one.imagines = True
        return True


class Slots:
    """As many conversations at once, each as long as it happens to be."""

    def __init__(
        self, target: Target, count: int, longest: int = LONGEST + SPARE,
        layers: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        def tensor(kind: torch.dtype, *shape: int) -> torch.Tensor:
            return torch.zeros(count, *shape, dtype=kind, device=target.device)

        self._target, self._longest = target, longest
        shape = (len(target.layers), 2, count, target.pairs, longest, target.width)
        self._caches = torch.zeros(shape, dtype=target.cache_kind, device=target.device)
        self._layers = layers
        if layers:
            hidden = target.config["hidden_size"]
            self._states = tensor(torch.float16, longest, len(layers) + 1, hidden)
            self._totals = tensor(torch.float32, longest)
        self._lengths, self._latest = tensor(torch.long), tensor(torch.long)
        self._new = tensor(torch.int32, LONGEST_ANSWER)
        self._count, self._most = tensor(torch.long), tensor(torch.long)
        self._temperatures, self._penalties = tensor(torch.float32), tensor(torch.float32)
        self._recent = tensor(torch.long, WINDOW)  # token i at place i % WINDOW
        self._graph: torch.cuda.CUDAGraph | None = None
        self._all = torch.arange(count, device=target.device)
        self.open: list[Open | None] = [None] * count

    @torch.no_grad()
    def fill(self, some: dict[int, Open]) -> None:
        """Let conversations begin, or go on, in slots that are free."""
        device, group = self._target.device, list[tuple[int, Open]]()
        for slot, one in sorted(some.items(), key=lambda item: len(item[1].tokens)):
            uneven = device == "cpu" and group and len(one.tokens) > 1.2 * len(group[0][1].tokens)
            if uneven or (group and (len(group) + 1) * len(one.tokens) > 40_000):
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
        penalties = [1.0 if one.imagines else one.penalty for one in some.values()]
        self._penalties[slots] = torch.tensor(penalties, device=device)
        self._recent[slots] = torch.tensor(list(map(_recent, some.values())), device=device)

    def _read(self, group: list[tuple[int, Open]]) -> None:
        device, longest = self._target.device, len(group[-1][1].tokens) - 1
        padded = [one.tokens[:-1] + [0] * (longest + 1 - len(one.tokens)) for _, one in group]
        slots = torch.tensor([slot for slot, _ in group], device=device)
        caches = list[torch.Tensor](self._caches)
        states, last = self._target.read(
            torch.tensor(padded, device=device), self._layers, caches=caches
        )
        if states is not None:
            self._states[slots, :longest] = torch.cat([states, last[:, :, None]], 2).half()
        for cache, read in zip(self._caches, caches, strict=True):
            cache[:, slots, :, :longest] = read.to(cache.dtype)
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
        states, last = self._target.go_on(self._latest, self._lengths, self._caches, self._layers)
        logits = F.linear(last, self._target.embedding)
        draw = drawn if logits.is_cuda else cpu_kernels.draw
        chosen, total = draw(logits, self._recent, self._penalties, self._temperatures)
        if states is not None:
            self._states[self._all, self._lengths] = torch.cat([states, last[:, None]], 1).half()
            self._totals[self._all, self._lengths] = total
        before = self._new[self._all, place]
        self._new[self._all, place] = torch.where(going, chosen.int(), before)
        self._latest.copy_(torch.where(going, chosen, self._latest))
        self._lengths += going
        self._recent[self._all, self._lengths % WINDOW] = self._latest
        self._count += going
        ended = going & ((chosen == ENDS[0]) | (chosen == ENDS[1]))
        self._most.copy_(torch.where(ended, self._count, self._most))

    def _going(self) -> torch.Tensor:
        return self._count < self._most

    def known(self, slot: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The states and totals of the first tokens of a slot."""
        return self._states[slot, :count].clone(), self._totals[slot, :count].clone()

    def done(self, whole: bool = True) -> Iterator[tuple[int, Open, list[int]]]:
        """The slots that are done, and what was written there; all of them, if not `whole`."""
        counts = self._count.tolist()
        still = self._going().tolist() if whole else [count < 2 for count in counts]
        slots = [i for i, one in enumerate(self.open) if one is not None and not still[i]]
        for slot, new in zip(slots, self._new[slots].tolist(), strict=True):
            one = self.open[slot]
            if one is not None:
                self.open[slot] = None
                yield slot, one, new[: counts[slot]]


def _recent(one: Open) -> list[int]:
    """The latest tokens, each at its own place of the window."""
    recent = [one.tokens[0]] * WINDOW
    for i, token in list(enumerate(one.tokens))[-WINDOW:]:
        recent[i % WINDOW] = token
    return recent


def drawn(
    logits: torch.Tensor, recent: torch.Tensor, penalties: torch.Tensor, temperatures: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """A token of each row of `logits` (slots, tokens), the most probable one at temperature 0; and
    the logarithm of the sum of what they stand for.

    Before it is drawn the logits of `recent` tokens (slots, WINDOW) are divided, or multiplied
    where they are negative, by the slot's penalty (CTRL, arXiv 1909.05858).
    """
    logits, by = logits.float(), penalties[:, None]
    total, before = logits.logsumexp(-1), logits.gather(1, recent)
    logits = logits.scatter(1, recent, torch.where(before > 0, before / by, before * by))
    hot = temperatures > 0
    if logits.is_cuda:  # a graph has fixed sizes
        race = torch.empty_like(logits).exponential_().log_()  # who is first is drawn fairly
        heated = logits / temperatures.clamp(min=1e-3)[:, None] - race
        return torch.where(hot[:, None], heated, logits).argmax(-1), total
    chosen = logits.argmax(-1)
    up_to = (logits[hot] / temperatures[hot, None]).softmax(-1).cumsum(-1)
    places = torch.rand(len(up_to), 1) * up_to[:, -1:]
    chosen[hot] = torch.searchsorted(up_to, places)[:, 0].clamp(max=logits.shape[-1] - 1)
    return chosen, total


def answer(
    asked: Path, out: Path, target: Target, folder: Path, minutes: float, slots: int,
    longest: int = LONGEST + SPARE, layers: tuple[int, ...] = (),
) -> None:  # fmt: skip
    """Write conversations for some minutes, to new shards in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    script = Script(folder, longest - SPARE)
    began, finished = time.monotonic(), list[Conversation]()
    said = steps = 0
    with gzip.open(asked, "rt") as file:
        lines = (json.loads(line) for line in file)
        desk = Slots(target, slots, longest, layers)
        more = {slot: script.begin(line) for slot, line in zip(range(slots), lines, strict=False)}
        while more or any(desk.open):
            if more:
                desk.fill(more)
            more = {}
            desk.go_on(STEPS)
            steps += STEPS
            late = time.monotonic() - began > 60 * minutes
            for slot, one, new in desk.done(whole=not late):
                if script.go_on(one, new) and not late:
                    more[slot] = one
                    continue
                if one.said:
                    kept = desk.known(slot, len(one.tokens)) if layers else ()
                    finished.append(Conversation(one.tokens, one.said, *kept))
                    said += sum(end - start for start, end in one.said)
                line = None if late else next(lines, None)
                if line is not None:
                    more[slot] = script.begin(line)
            if steps % (8 * STEPS) == 0:
                seconds = time.monotonic() - began
                print(f"{steps} steps, {said} tokens said, {said / seconds:.0f}/s", flush=True)
            if late or len(finished) >= (SHARD // 100 if layers else SHARD):
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
    if some[0].states is not None:
        tensors["states"] = torch.cat([one.states for one in some])
        tensors["totals"] = torch.cat([one.totals for one in some])
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
            own = slice(place, place + length)
            kept = [shard[name][own] for name in ("states", "totals") if name in shard]
            some.append(Conversation(tokens[own], [], *kept))
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
    parser.add_argument("--longest", type=int, default=LONGEST + SPARE)
    parser.add_argument("--keep-states", action="store_true", help="for learning on a CPU")
    given = parser.parse_args()
    if given.longest < 800:
        parser.error("--longest must be at least 800: an answer may have 640 tokens")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    answer(
        given.asked, given.out, Target(given.target, device), given.target, given.minutes,
        given.slots, given.longest, KEPT if given.keep_states else (),
    )  # fmt: skip
