"""Measures, stores and updates the costs of drafting with a pair on this machine.

Knows the pair and its decoder; nothing of prompts, of text, or of events.
"""

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from enum import Enum
from itertools import pairwise
from time import perf_counter

from engine.circumstances import Contention, gpu_is_busy
from engine.conversation.loading import LoadedModel
from engine.conversation.pair import identify
from engine.core.decoder import Decoder
from engine.core.loop import speculate
from engine.core.rounds import Task
from engine.device import backend
from engine.draft_length import DraftLengthPolicy
from engine.draft_length.calibrate import calibrate
from engine.draft_length.calibrations import CalibrationKey, CalibrationStore
from engine.draft_length.costs import Calibration
from engine.draft_length.policy import Automatic, Fixed
from engine.drafters import Drafter, NoDrafter
from engine.request import Sampling
from models.errors import Problem
from models.installed.resolve import Drafters


class Remark(Enum):
    """A remark for people about a calibration or an answer. The value is a line of text."""

    SLOW_BLAS = (
        "MLX uses the slow reference BLAS on this machine, so drafting cannot pay off. Run "
        "slipstream doctor for the fix."
    )
    BUSY_CALIBRATING = "This machine is busy with other programs. Drafting is measured again later."
    BUSY_ANSWERING = (
        "Other programs kept this machine busy, so the speed of this answer was not stored."
    )
    ONLY_CHAINS = "This pair does not support draft trees, so drafts are chains."


class PairCosts:
    """The costs of one pair, shared by all sessions that draft with it.

    `store`: where they are stored; None stores nothing. Attribute: `drafters`, of the pair.
    """

    def __init__(
        self, store: CalibrationStore | None, target: LoadedModel, drafters: Drafters
    ) -> None:
        self._store, self._target, self.drafters = store, target, drafters
        self._key: CalibrationKey | None = None  # None before `calibrate`, or without a fingerprint
        self._measured: Calibration | None = None  # None where it was measured on a busy machine
        self._stored: Calibration | None = None  # under the key, when it was last looked at

    def calibrate(
        self,
        decoder: Decoder,
        drafter: Drafter,
        tokens: Sequence[int],
        *,
        progress: Callable[[float], None],
        cancelled: Callable[[], bool],
        again: bool,
    ) -> tuple[Automatic, list[Remark]]:
        """A policy that knows these costs, and remarks on them.

        `decoder` and `drafter` have read a prefix of `tokens`; the rest as for `Session.calibrate`.
        """
        remarks: list[Remark] = []
        with suppress(Problem):
            self._key = identify(self.drafters, self._target, decoder)
        calibration = acceptance = None
        if self._key is not None and self._store is not None:
            calibration, acceptance = self._store.read(self._key)
            self._stored = calibration
        if again:
            calibration = None
        self._measured = calibration
        if calibration is None:
            drafter.leave_out(tuple)  # the text that is measured may be in a gap
            gpu_was_busy, contention = gpu_is_busy(), Contention()
            with decoder.busy():
                calibration = calibrate(
                    decoder, drafter, tokens, progress=progress, cancelled=cancelled
                )
            if backend().slow_rows:
                remarks.append(Remark.SLOW_BLAS)
            if gpu_was_busy or contention.heavy:
                remarks.append(Remark.BUSY_CALIBRATING)
            elif calibration is not None and calibration.steady:
                self._measured = calibration
        policy = Automatic(calibration, acceptance)
        self._write(policy)
        return policy, remarks

    def watch(self) -> Contention:
        """Begin to watch the load of other programs, for `learn`."""
        return Contention()

    def learn(
        self, policy: DraftLengthPolicy, contention: Contention, *, accompanied: bool
    ) -> bool:
        """Store what `policy` has learned from an answer. Returns whether other programs disturbed
        it: then nothing is stored, as after an answer that was `accompanied` by others."""
        disturbed = self._measured is not None and contention.heavy
        if not disturbed and not accompanied:
            self._write(policy)
        return disturbed

    def _write(self, policy: DraftLengthPolicy) -> None:
        """Store the acceptance that `policy` has learned, and costs that are not outdated. Costs
        that another process has stored meanwhile, or found outdated, stay as they are."""
        if isinstance(policy, Automatic) and self._measured and self._key and self._store:
            costs, _ = self._store.read(self._key)
            if costs == self._stored:
                costs = self._stored = None if policy.costs.outdated else self._measured
            self._store.write(self._key, costs, policy.acceptance)


def plain_passes(
    decoder: Decoder,
    tokens: Sequence[int],
    sampling: Sampling,
    *,
    passes: int,
    going_on: Callable[[], bool],
) -> tuple[float, ...]:
    """The seconds of `passes` plain passes after `tokens`, which `decoder` takes back afterwards.

    Empty if `going_on` returns False. One more pass goes before them, as it also reads tokens that
    the answer left unread. Another follows them, as it is built while the last of them runs.
    """
    length, moments = decoder.length, list[float]()
    task = Task(sampling, seed=0, max_tokens=passes + 2, ends=frozenset())
    decoder.bookmark()
    with closing(speculate(decoder, NoDrafter(), Fixed(0), list(tokens), task)) as written:
        for _ in written:
            moments.append(perf_counter())
            if not going_on() or len(moments) > passes:
                break
    decoder.rewind(length)
    seconds = tuple(after - before for before, after in pairwise(moments))
    return seconds if len(seconds) == passes else ()
