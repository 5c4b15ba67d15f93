"""Sessions that read with a group: when the other ranks rest, and what is as with one process."""

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import pytest

from engine.cluster.follower import Follower
from engine.cluster.group import Group
from engine.cluster.leader import Leader
from engine.conversation.loading import LoadedModel
from engine.conversation.pair import identify
from engine.conversation.scheduler import Job, Scheduler
from engine.conversation.session import Session
from engine.core.cache import QuantizedCaches
from engine.core.decoder import Decoder
from engine.draft_length.policy import Automatic, Fixed
from engine.drafters.copying import LookupDrafter
from engine.events import Done, Verdict
from engine.process.host import failure
from engine.request import Request, Sampling, asked
from models.installed.resolve import resolve_drafters
from models.model_folder import ModelFolder
from tests.support.engine.helpers import build_wide
from tests.support.engine.ranks import Held, Ranks, alone, lead, leading
from tests.support.engine.sessions import QUESTION, VOCABULARY, tokens_of
from tests.support.mostly_slow import mostly_slow

TARGET = partial(build_wide, "qwen3_5", vocabulary=VOCABULARY)
PIPELINE = Held(TARGET, "pipeline")


def drafting(target: LoadedModel, **options: Any) -> Session:
    session = Session(target, policy=Fixed(3), **options)
    session.drafter = LookupDrafter()
    return session


def answered_in_turns(target: LoadedModel) -> dict[str, list[int]]:
    """Three answers at once; two of their prompts begin alike, and one is read by a copy."""
    scheduler = Scheduler(drafting(target), parallel=3, room=4096, batching=False, fail=failure)
    prompts = ["one two three " * 20, "one two three " * 20 + "four", "five"]
    answers: dict[str, list[Any]] = {str(n): [] for n in range(3)}
    request = Request(max_tokens=30, sampling=Sampling(temperature=0.9, seed=3, repeatable=True))
    for number, prompt in enumerate(prompts):
        job = Job(str(number), asked(prompt), request)
        for event in scheduler.add(job):
            answers[event.generation].append(event)
    while scheduler.busy:
        for event in scheduler.step():
            answers[event.generation].append(event)
    assert all(isinstance(each[-1], Done) for each in answers.values())
    return {name: tokens_of(each) for name, each in answers.items()}


def answered_with_quantized_caches(target: LoadedModel) -> list[int]:
    session = drafting(target, quantized=QuantizedCaches(bits=4, group_size=32, start=60))
    return tokens_of(list(session.answer(QUESTION, Request(max_tokens=40))))


def judged(target: LoadedModel) -> list[Any]:
    """What the target thinks of its own tokens."""
    request = Request(max_tokens=12, logprobs=3)
    events = list(drafting(target).answer(QUESTION, request, generation="one"))
    return [each for event in events if isinstance(event, Verdict) for each in event.logprobs]


@pytest.mark.slow
@pytest.mark.parametrize(
    "work",
    mostly_slow([answered_in_turns, answered_with_quantized_caches, judged], quick=[judged]),
    ids=lambda each: each.__name__,
)
def test_as_with_one_process(
    two: Ranks, work: Callable[[LoadedModel], Any], on_the_cpu: None
) -> None:
    found, followed = two.call(lead, PIPELINE, work)
    assert found == work(alone(TARGET()))
    assert isinstance(followed, dict)


def count_rests(group: Group) -> list[int]:
    """How often the other ranks were woken: rank 0 tells by each ending, the others in all."""
    part, woken = PIPELINE.part(group), list[int]()

    def wake() -> bool:
        woken.append(1)
        return True

    if group.rank() > 0:
        Follower(part).run(wake)
        return [len(woken)]
    leader = Leader(part, wake=lambda: woken.append(1))
    session, counts = drafting(leading(leader)), list[int]()

    def ended() -> None:
        counts.append(len(woken))

    def failing(*_: Any, **__: Any) -> Any:
        raise ValueError("of a drafter")

    request = Request(max_tokens=12)
    list(session.answer(QUESTION, request))
    ended()
    closed = session.answer(QUESTION, request)
    list(islice(closed, 8))
    closed.close()  # type: ignore[attr-defined] # it is a generator
    ended()
    often = iter(range(4))
    list(session.answer(QUESTION, request, cancelled=lambda: next(often, None) is None))
    ended()
    good, session.drafter.propose = session.drafter.propose, failing  # type: ignore[method-assign]
    session.policy = Fixed(3)
    with pytest.raises(ValueError, match="of a drafter"):
        list(session.complete([1, 2, 3] * 9, request))
    session.drafter.propose = good  # type: ignore[method-assign]
    ended()
    session.policy = Automatic()
    session.calibrate()
    ended()
    list(session.answer(QUESTION, request, compare=lambda: True))
    ended()
    leader.quit()
    return counts


@pytest.mark.slow
def test_ranks_rest_however_an_answer_ends(two: Ranks) -> None:
    counts, (followed,) = two.call(count_rests)
    assert counts == [1, 2, 3, 4, 5, 6]
    assert followed == 7  # once for the end


class Grouped(Decoder):
    """Says that it reads with others."""

    group = "pipeline 2+2 over ring"


def test_calibration_belongs_to_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelFolder, "fingerprint", property(lambda folder: str(folder.path)))
    target = alone(TARGET())
    drafters = resolve_drafters("lookup", target.folder)
    decoders = [Decoder(target.model), Grouped(target.model)]
    keys = [identify(drafters, target, each) for each in decoders]
    assert keys[0] != keys[1]
    assert Grouped.group in keys[1].backend
