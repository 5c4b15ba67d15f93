"""The facts that the window's process reports to the self-test, one on each line of JSON.

Knows which facts there are, and how they are written and read; judges nothing, and needs no Qt.
"""

from contextlib import suppress
from dataclasses import dataclass

from models.json_lines import Language
from models.typed_json import WrongJson


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFacts:
    """The window after its first paint; `painted_at` is in seconds of the system's clock."""

    painted_at: float
    pid: int
    platform: str
    width: int
    height: int
    pyside6: str
    qt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """The engine's process, and its versions."""

    pid: int
    python: str
    mlx: str
    mlx_lm: str
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFacts:
    """The pair that was loaded."""

    target: str
    drafter: str
    draft_length: str
    precision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFacts:
    """The answer to the question, and how its tokens came about. `drafting`: the share of the time
    of drafted rounds that went into drafting."""

    question: str
    text: str
    ending: str
    tokens: int
    proposed: int
    accepted: int
    drafting: float
    tokens_per_second: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureFacts:
    """Why the window gave up."""

    why: str


Fact = WindowFacts | EngineFacts | PairFacts | AnswerFacts | FailureFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The reports of the window's process; None for a missing one."""

    window: WindowFacts | None = None
    engine: EngineFacts | None = None
    pair: PairFacts | None = None
    answer: AnswerFacts | None = None
    failure: FailureFacts | None = None


_FACTS = Language[Fact](
    "fact",
    {
        "window": WindowFacts,
        "engine": EngineFacts,
        "pair": PairFacts,
        "answer": AnswerFacts,
        "failure": FailureFacts,
    },
)


def write_fact(fact: Fact) -> str:
    """A fact as a line of JSON."""
    return _FACTS.to_json(fact)


def read_facts(output: bytes) -> Observed:
    """The facts among the lines of `output`; libraries may have printed other lines."""
    facts: dict[str, Fact] = {}
    for line in output.splitlines():
        with suppress(WrongJson):
            fact = _FACTS.read(line)
            facts[_FACTS.name(fact)] = fact
    return Observed(**facts)  # type: ignore[arg-type]
