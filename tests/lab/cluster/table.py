"""What drafting gains with a target on two Macs, by the latency between them, and in one process.

All settings write the same answers in turns, over and over, so that a machine that slows down slows
all alike. Knows targets that are loaded; nothing of how they come to be on two Macs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

from engine.bench.figures import committed_ids, without_first_round
from engine.conversation.loading import LoadedModel
from engine.conversation.pair import make_policy
from engine.conversation.session import Session
from engine.conversation.stats import tally
from engine.draft_length import DraftLengthPolicy
from engine.draft_length.policy import Automatic
from engine.events import Event, Verdict
from engine.request import ChatMessage, Request, Sampling

_WARM_UP_TOKENS = 2


@dataclass(frozen=True, slots=True)
class Way:
    """A way to decode, as `--drafter` and `--draft-length` say it."""

    drafter: str
    length: str

    def __str__(self) -> str:
        return f"{self.drafter}, {self.length}" if self.drafter != "none" else "plain"


PLAIN = Way("none", "0")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer's token ids; of all its rounds but the first, `tokens` and `seconds`, and how many
    `passes` of the target they were."""

    ids: tuple[int, ...]
    tokens: int
    passes: int
    seconds: float


class Place:
    """Where a target is: in one process, or on two Macs. It has a conversation for each drafter, so
    that each prompt is read once for it."""

    def __init__(self, target: LoadedModel) -> None:
        self._target = target
        self._sessions: dict[str, Session] = {}

    def session(self, drafter: str) -> Session:
        """The conversation in which this drafter drafts."""
        if drafter not in self._sessions:
            self._sessions[drafter] = Session(self._target, drafter=drafter)
        return self._sessions[drafter]


class Setting:
    """A place that `arrange` makes what its `name` says, before anything is measured there. Every
    way to decode learns for itself here: elsewhere its costs are others."""

    def __init__(self, name: str, place: Place, arrange: Callable[[], None] = lambda: None) -> None:
        self.name = name
        self._place, self._arrange = place, arrange
        self._policies: dict[Way, DraftLengthPolicy] = {}

    def calibrate(self, way: Way) -> bool:
        """Measure what this way costs here, before the first answer. Returns False where timings
        varied too much."""
        self._arrange()
        session = self._place.session(way.drafter)
        session.policy = make_policy(way.length)
        session.calibrate()
        self._policies[way] = policy = session.policy
        return not isinstance(policy, Automatic) or policy.calibration is not None

    def answer(self, way: Way, question: str, *, most_tokens: int) -> Answer:
        """A greedy answer, timed as `slipstream bench` does."""
        self._arrange()
        session = self._place.session(way.drafter)
        session.policy = self._policies[way]
        request = Request(sampling=Sampling(temperature=0.0), max_tokens=most_tokens)
        events: list[Event] = []
        times: list[float] = []
        for event in session.answer([ChatMessage("user", question)], request):
            events.append(event)
            if isinstance(event, Verdict):
                times.append(perf_counter())
        stats = tally(without_first_round(events))
        ids = tuple(committed_ids(events))
        return Answer(ids, stats.committed, stats.rounds, times[-1] - times[0])


@dataclass(frozen=True, slots=True)
class Measured:
    """An answer: in which round, where, how, and to which question."""

    round: int
    setting: str
    way: Way
    question: int
    answer: Answer


def measure(
    settings: Sequence[Setting],
    ways: Sequence[Way],
    questions: Sequence[str],
    *,
    rounds: int,
    most_tokens: int,
) -> Iterator[Measured]:
    """An answer to each question in each setting and way, in each round. Another round comes
    before, in which prompts are read and nothing is measured."""
    for number in range(-1, rounds):
        for question, text in enumerate(questions):
            for setting in settings:
                for way in ways:
                    if number < 0:
                        setting.answer(way, text, most_tokens=_WARM_UP_TOKENS)
                        continue
                    answer = setting.answer(way, text, most_tokens=most_tokens)
                    yield Measured(number, setting.name, way, question, answer)


def differing(measured: Sequence[Measured]) -> list[Measured]:
    """The answers that are not what was answered first to their question."""
    first: dict[int, tuple[int, ...]] = {}
    for each in measured:
        first.setdefault(each.question, each.answer.ids)
    return [each for each in measured if each.answer.ids != first[each.question]]


def render(measured: Sequence[Measured]) -> list[str]:
    """A table in Markdown: a row for each setting, a column for each way, medians of all rounds.

    A way is compared with plain decoding in the same setting, and that with the first setting's:
    round by round.
    """
    rows = list(dict.fromkeys(each.setting for each in measured))
    ways = list(dict.fromkeys(each.way for each in measured))
    speeds = _speeds(measured)
    lines = ["| | " + " | ".join(map(str, ways)) + " |", "|--" * (len(ways) + 1) + "|"]
    for row in rows:
        cells = [_cell(speeds, measured, row, way, first=rows[0]) for way in ways]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return lines


def _cell(
    speeds: Mapping[tuple[str, Way], Sequence[float]],
    measured: Sequence[Measured],
    setting: str,
    way: Way,
    *,
    first: str,
) -> str:
    own = speeds[setting, way]
    other = speeds[first if way == PLAIN else setting, PLAIN]
    ratio = median(mine / theirs for mine, theirs in zip(own, other, strict=True))
    cell = f"{median(own):.2f} tok/s ({min(own):.2f}–{max(own):.2f}), {ratio:.2f}×"
    if way == PLAIN:
        return cell
    answers = [each.answer for each in measured if (each.setting, each.way) == (setting, way)]
    length = sum(each.tokens for each in answers) / sum(each.passes for each in answers)
    return f"{cell}, {length:.1f} tokens a pass"


def _speeds(measured: Sequence[Measured]) -> dict[tuple[str, Way], list[float]]:
    """Tokens a second in each setting and way, over all questions, round by round."""
    sums: dict[tuple[str, Way], dict[int, tuple[int, float]]] = {}
    for each in measured:
        by_round = sums.setdefault((each.setting, each.way), {})
        tokens, seconds = by_round.get(each.round, (0, 0.0))
        by_round[each.round] = tokens + each.answer.tokens, seconds + each.answer.seconds
    return {
        key: [tokens / seconds for tokens, seconds in by_round.values()]
        for key, by_round in sums.items()
    }
