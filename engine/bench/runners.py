"""The ways of decoding that a benchmark compares, and the definition of its measurement.

Every runner gets the same prompt tokens, caches of its own, the same seed, and the same end: a
token that ends the text, or the first round that ends at or past `limit` tokens. No runner knows
the limit, so it cuts no round short, and charges no one for a round that others do not have.

The clock starts when the caller has the first round's tokens and stops when it has the last
round's; every figure is of the rounds in between. So neither prefill nor the first token counts,
and plain decoding, which runs the next pass while it returns a token, is charged for as many passes
as it gives tokens. (Ours starts no pass ahead at every 64th token, so a limit that is a multiple of
64 would spare it one pass.)

All runners turn tokens into text as they go, as an application would: ours in `Session`, mlx-lm's
with the detokenizer of its own `stream_generate`.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, replace
from time import perf_counter
from typing import Any, Protocol

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.generate import generate_step, speculative_generate_step
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.sample_utils import make_sampler

from engine.bench.options import BenchOptions, label, model_folders
from engine.conversation.loading import LoadedModel
from engine.conversation.pair import make_drafter, make_policy
from engine.conversation.rounds import committed
from engine.conversation.session import Session
from engine.conversation.stats import tally
from engine.core.decoder import Decoder
from engine.draft_length import LONGEST_COPY, DraftLengthPolicy
from engine.draft_length.calibrate import calibrate
from engine.draft_length.policy import Automatic
from engine.drafters import Drafter, NoDrafter
from engine.events import Event, Origin, Stats, TokenVerdict, Verdict, WrittenToken
from engine.request import Request, Sampling
from models.files import written_path
from models.installed.resolve import Drafters, drafts_without_weights, resolve_drafters
from models.limits import PREFILL_ROWS
from models.model_folder import ModelFolder

PLAIN = "slipstream plain"
MLX_LM = "mlx-lm plain"
HEADROOM = LONGEST_COPY + 1  # tokens past the limit that a runner may write

Load = Callable[..., LoadedModel]
Make = Callable[[LoadedModel, Decoder], Drafter]


@dataclass(frozen=True, slots=True)
class Workload:
    """An answer to write: continue `prompt`, token ids, by about `limit` tokens."""

    prompt: tuple[int, ...]
    limit: int
    temperature: float
    seed: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measured answer: all committed `ids`, and the figures of all rounds except the first.

    `stats.decode_seconds` is measured by the benchmark's own clock. `verdicts`: of the
    same rounds. `phases`: whether draft and verify seconds were measured too.
    """

    ids: tuple[int, ...]
    stats: Stats
    verdicts: tuple[Verdict, ...] = ()
    phases: bool = False


class Runner(Protocol):
    """A way to decode."""

    @property
    def name(self) -> str:
        """A unique name that reports show."""

    def run(self, workload: Workload) -> Measurement:
        """Write the answer from scratch. Raises ValueError if it cannot run this model."""


class PromptReader:
    """Reads a prompt once for all runners that ask for it; no figure includes its time. Keeps the
    newest prompt."""

    def __init__(self, target: LoadedModel) -> None:
        self._read = Session(target)

    def session(self, prompt: Sequence[int]) -> Session:
        """A fresh session that has read all of `prompt` except its last token."""
        if self._read.shared(prompt) < len(prompt) - 1:
            least = Request(sampling=Sampling(temperature=0.0), max_tokens=1)
            for _ in self._read.complete(prompt, least):
                pass
        return self._read.copy()


@dataclass(slots=True)
class SlipstreamRunner:
    """Slipstream: a new conversation for each answer, with a drafter and one `policy`.

    As in the application, all conversations share the policy, which learns from each answer, and an
    automatic policy begins with the pair's calibration, which is measured before the first answer
    and is part of none. `reader` gives prompts that it has read. None: the drafter reads prompts
    too, so each answer begins with the whole prompt.
    """

    name: str
    _: KW_ONLY
    target: LoadedModel
    make: Make
    policy: DraftLengthPolicy
    reader: PromptReader | None
    calibrated: bool = False

    def run(self, workload: Workload) -> Measurement:
        tokens: list[int] = []  # of each round
        times: list[float] = []
        events: list[Event] = []
        for event in self._answer(workload, cancelled=lambda: sum(tokens) >= workload.limit):
            if isinstance(event, Verdict):
                times.append(perf_counter())
                tokens.append(event.accepted + (event.next is not None))
            events.append(event)
        measured = without_first_round(events)
        stats = replace(tally(measured), decode_seconds=times[-1] - times[0])
        verdicts = tuple(event for event in measured if isinstance(event, Verdict))
        return Measurement(
            tuple(token.id for token in committed(events)), stats, verdicts, phases=True
        )

    def _answer(
        self, workload: Workload, *, cancelled: Callable[[], bool] = lambda: False
    ) -> Iterator[Event]:
        """Yield the events of a new conversation's first answer."""
        if not self.calibrated and isinstance(self.policy, Automatic):
            empty = Session(self.target)
            drafter = self.make(self.target, empty.decoder)
            self.policy = Automatic(calibrate(empty.decoder, drafter))
        self.calibrated = True
        if self.reader is None:
            session = Session(self.target)
        else:
            session = self.reader.session(workload.prompt)
        session.drafter = self.make(self.target, session.decoder)
        session.policy = self.policy  # set last: a session restarts its policy for a new drafter
        sampling = Sampling(temperature=workload.temperature, seed=workload.seed)
        request = Request(sampling=sampling, max_tokens=workload.limit + HEADROOM)
        return session.complete(workload.prompt, request, cancelled=cancelled)


@dataclass(frozen=True, slots=True)
class MlxLmRunner:
    """mlx-lm's plain decoding; with a `draft_model` its speculative decoding, `length` tokens a
    round."""

    name: str
    _: KW_ONLY
    target: LoadedModel
    draft_model: nn.Module | None = None
    length: int = 0

    def run(self, workload: Workload) -> Measurement:
        model, draft_model = self.target.model, self.draft_model
        began = perf_counter()
        cache = _prefilled(model, workload.prompt)
        if draft_model is not None:
            cache += _prefilled(draft_model, workload.prompt)
        prefill_seconds = perf_counter() - began
        mx.random.seed(workload.seed)
        newest = mx.array(workload.prompt[-1:])
        options: dict[str, Any] = {
            "max_tokens": workload.limit + HEADROOM,
            "sampler": make_sampler(workload.temperature),
            "prompt_cache": cache,
        }
        if draft_model is None:
            steps: Generator[Any] = generate_step(newest, model, **options)
        else:
            options["num_draft_tokens"] = self.length
            steps = speculative_generate_step(newest, model, draft_model, **options)
        with closing(steps):  # (token, log probabilities), and whether it was drafted
            items = ((int(token), any(drafted)) for token, _, *drafted in steps)
            ids, flags, seconds = _collect(items, self.target, workload.limit)
        verdicts = verdicts_of_flags(flags, length=self.length)
        stats = replace(
            tally(verdicts),
            decode_seconds=seconds,
            plain_round_seconds=(),  # mlx-lm's rounds have no times of their own
            prompt_tokens=len(workload.prompt),
            prefill_seconds=prefill_seconds,
        )
        return Measurement(tuple(ids), stats, tuple(verdicts))


def without_first_round(events: Sequence[Event]) -> list[Event]:
    """Return the events without the first verdict, so that figures are of the rounds after it."""
    first = next((event for event in events if isinstance(event, Verdict)), None)
    return [event for event in events if event is not first]


def verdicts_of_flags(flags: Sequence[bool], *, length: int) -> list[Verdict]:
    """Return the verdicts of mlx-lm's rounds, from its flag for each token: whether it was drafted.

    Every round drafts `length` tokens and ends with a token of the target's own; only the last
    round may lack it, if a drafted token ended the text. Probabilities and times are 0.
    """
    judgements = (TokenVerdict(0.0, 0.0),) * length
    verdicts: list[Verdict] = []
    accepted = 0
    for number, drafted in enumerate(flags, 1):
        accepted += drafted
        if drafted and number < len(flags):
            continue
        origin: Origin = "bonus" if accepted == length else "correction"
        own = None if drafted else WrittenToken(0, "", 0.0, origin if length else "plain")
        round = len(verdicts) + 1
        verdicts.append(Verdict("", round, accepted, judgements, own, 0.0, 0.0, 0.0, ""))
        accepted = 0
    return verdicts


def _prefilled(model: nn.Module, prompt: tuple[int, ...]) -> list[Any]:
    """New mlx-lm caches that hold all of `prompt` except its last token, read in our chunks."""
    cache: list[Any] = make_prompt_cache(model)
    for start in range(0, len(prompt) - 1, PREFILL_ROWS):
        rows = prompt[start : min(start + PREFILL_ROWS, len(prompt) - 1)]
        model(mx.array(rows)[None], cache=cache)
        mx.eval([layer.state for layer in cache])
        mx.clear_cache()
    return cache


def _collect(
    items: Iterator[tuple[int, bool]], target: LoadedModel, limit: int
) -> tuple[list[int], list[bool], float]:
    """Return all tokens; for the tokens after the first round whether each was drafted, and their
    seconds."""
    detokenizer = target.tokenizer.detokenizer
    ids: list[int] = []
    flags: list[bool] = []
    began: float | None = None
    seconds = 0.0
    for token, drafted in items:
        now = perf_counter()
        ids.append(token)
        if began is not None:
            flags.append(drafted)
            seconds = now - began
        elif not drafted:
            began = now
        if token in target.ends or (len(ids) >= limit and not drafted):
            break
        detokenizer.add_token(token)
        _ = detokenizer.last_segment  # computed on access
    return ids, flags, seconds


def _maker(drafters: Drafters, load: Load) -> Make:
    return lambda target, decoder: make_drafter(drafters, target=target, decoder=decoder, load=load)


def make_runners(options: BenchOptions, target: LoadedModel, load: Load) -> list[Runner]:
    """Plain decoding of both, ours with each drafter and its length, and mlx-lm's with models."""
    reader = PromptReader(target)
    runners: list[Runner] = []
    if options.plain:
        plain = SlipstreamRunner(
            PLAIN,
            target=target,
            make=lambda target, decoder: NoDrafter(),
            policy=make_policy("0"),
            reader=reader,
        )
        runners += [plain]
        if options.baselines and target.alone:
            runners.append(MlxLmRunner(MLX_LM, target=target))
    for drafter, length in options.drafting:
        folder = written_path(drafter)
        found = resolve_drafters(drafter, target.folder, bits=options.drafter_bits)
        make = _maker(found, load)
        shares_prompts = all(map(drafts_without_weights, drafter.split("+")))
        runners.append(
            SlipstreamRunner(
                f"slipstream {label(drafter)} {length}",
                target=target,
                make=make,
                policy=make_policy(length),
                reader=reader if shares_prompts else None,
            )
        )
        if not target.alone:
            continue
        if model_folders((drafter,)) == [folder] and length.strip("0").isdecimal():
            runners.append(
                MlxLmRunner(
                    f"mlx-lm {label(drafter)} {length}",
                    target=target,
                    draft_model=load(ModelFolder(folder)).model,
                    length=int(length),
                )
            )
    return runners
