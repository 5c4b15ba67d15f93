"""What drafters would have proposed at every place of recorded answers, and how much was accepted.

Knows the file format and nothing of models. No text and no tokens are kept: only lengths, matches
and probabilities. A file is JSON lines, gzipped where its name ends in .gz: a header, then an
answer a line.

For greedy answers a record is exact: whether a chain's tokens are the target's own does not depend
on what was drafted before. Sampled ones are judged token by token with the luck of the recording,
and the rounds of a replay are set side by side as if their luck had been independent: an
approximation. (Judged as blocks, which the engine does, somewhat more would have been accepted.)
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from models.errors import Problem

FORMAT, VERSION = "slipstream-trace", 1
_PER_MILLE = 1000  # q is kept in thousandths


@dataclass(frozen=True, slots=True)
class RecordedDraft:
    """A chain that was proposed at some place: the first `accepted` of its tokens are accepted.

    `q`: the drafter's probability of each token. `match`: how many tokens a lookup matched.
    `ranks`: of a drafter that proposes trees, the path that the answer takes through any of them:
    the number of each of its next tokens among the drafter's alternatives after those before it,
    up to the first token that is none of them. None where it was not recorded.
    """

    q: tuple[float, ...]
    accepted: int
    match: int = 0
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.accepted <= len(self.q) or self.match < 0:
            raise ValueError(
                f"{self.accepted} of {len(self.q)} tokens are accepted, match {self.match}"
            )
        if min(self.ranks or (), default=0) < 0:
            raise ValueError("a rank is below 0")


@dataclass(frozen=True, slots=True)
class AnswerTrace:
    """One answer. `prompt`: tokens before it. `drafts`: by drafter, in the order in which they
    are asked, what each would propose before the first token of the answer, the second, ..."""

    id: str
    category: str
    temperature: float
    prompt: int
    drafts: Mapping[str, tuple[RecordedDraft | None, ...]]

    def __post_init__(self) -> None:
        if len({len(places) for places in self.drafts.values()}) != 1:
            raise ValueError("the drafters have no, or differently many, places")

    @property
    def places(self) -> int:
        """How many tokens the answer has."""
        return len(next(iter(self.drafts.values())))


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A file. `target`: the model's name, for people."""

    target: str
    answers: tuple[AnswerTrace, ...]


def rounded(q: float) -> float:
    """As exact as files keep it."""
    return round(_PER_MILLE * q) / _PER_MILLE


def without_acceptance(answer: AnswerTrace) -> AnswerTrace:
    """The same drafts, none of them accepted."""
    drafts = {
        name: tuple(each and replace(each, accepted=0, ranks=each.ranks and ()) for each in places)
        for name, places in answer.drafts.items()
    }
    return replace(answer, drafts=drafts)


# Files


def load_trace(path: Path) -> TraceFile:
    """Read a file. Raises `Problem` if it is no trace of this version."""
    try:
        data = path.read_bytes()
        lines = (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()
        header, *records = map(json.loads, lines)
        if (header["format"], header["version"]) != (FORMAT, VERSION):
            raise ValueError("it has another format")
        answers = tuple(map(_read, records))
        if len({tuple(answer.drafts) for answer in answers}) != 1:
            raise ValueError("its answers have no, or different, drafters")
    except (OSError, EOFError, ValueError, LookupError, TypeError, zlib.error) as error:
        why = " ".join(f"{type(error).__name__}, {error}".split())
        raise Problem(
            f"The trace {path} cannot be read: {why}.", "Record it again: make record."
        ) from error
    return TraceFile(header["target"], answers)


def save_trace(path: Path, trace: TraceFile) -> None:
    """Write `path` atomically: it is the old file or the new one."""
    header = {"format": FORMAT, "version": VERSION, "target": trace.target}
    records = [header, *map(_to_json, trace.answers)]
    lines = [json.dumps(record, separators=(",", ":")) for record in records]
    data = ("\n".join(lines) + "\n").encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)  # the same trace gives the same bytes
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise Problem(f"{path} cannot be written: {error}.", "Choose another file.") from error


def _to_json(answer: AnswerTrace) -> dict[str, Any]:
    columns = {name: _columns(places) for name, places in answer.drafts.items()}
    return {
        "id": answer.id,
        "category": answer.category,
        "temperature": answer.temperature,
        "prompt": answer.prompt,
        "drafts": columns,
    }


def _columns(places: Iterable[RecordedDraft | None]) -> dict[str, list[int]]:
    """How many tokens were drafted, accepted and matched at each place; all their q end to end.

    Files call the accepted ones "stood".
    """
    chains = [place or RecordedDraft((), 0) for place in places]
    columns = {
        "drafted": [len(chain.q) for chain in chains],
        "stood": [chain.accepted for chain in chains],
    }
    if any(chain.match for chain in chains):
        columns["match"] = [chain.match for chain in chains]
    if any(chain.ranks is not None for chain in chains):
        columns["paths"] = [len(chain.ranks or ()) for chain in chains]
        columns["ranks"] = [rank for chain in chains for rank in chain.ranks or ()]
    q = [round(_PER_MILLE * q) for chain in chains for q in chain.q]
    if any(share != _PER_MILLE for share in q):  # else it was certain of all
        columns["q"] = q
    return columns


def _read(record: Mapping[str, Any]) -> AnswerTrace:
    drafts = {name: _places(columns) for name, columns in record["drafts"].items()}
    return AnswerTrace(
        record["id"], record["category"], record["temperature"], record["prompt"], drafts
    )


def _places(columns: Mapping[str, Sequence[int]]) -> tuple[RecordedDraft | None, ...]:
    drafted, accepted = columns["drafted"], columns["stood"]
    matches = columns.get("match", [0] * len(drafted))
    shares = iter(columns.get("q", [_PER_MILLE] * sum(drafted)))
    paths, ranks = columns.get("paths", [0] * len(drafted)), iter(columns.get("ranks", []))
    places = list[RecordedDraft | None]()
    for count, stood, match, height in zip(drafted, accepted, matches, paths, strict=True):
        chain = RecordedDraft(
            tuple(share / _PER_MILLE for share in islice(shares, count)),
            stood,
            match,
            tuple(islice(ranks, height)) if "paths" in columns else None,
        )
        places.append(chain if count else None)
    return tuple(places)
