"""`slipstream distil`: the target answers, a head learns from the answers, the best one is kept.

Knows the order of the work and how it is taken up again; what is done is in the modules beside it.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx

from engine.distil.answering import Answering, TokenizedPrompt, require_memory, split
from engine.distil.budget import Budget, Report
from engine.distil.prompts import read_prompts
from engine.distil.store import AnswerStore, likeliest
from engine.distil.training import Learning, memory_bytes
from engine.drafters.head_network import BoundHead, new_head, save_head, shape_for
from engine.loading import LoadedModel, load
from engine.model_parts import embedding
from models.drafter_folders import WEIGHTS_NAME
from models.errors import Problem
from models.files import write_text
from models.model_folder import ModelFolder

_TEMPERATURES = (0.0, 0.7, 0.0, 1.0)  # in turn
_LONGEST_PROMPT = 256  # tokens; longer ones take longer to be read than their answers to be written
_FEWEST_PROMPTS = 16


@dataclass(frozen=True, slots=True)
class DistilOptions:
    """What to distil. Of `minutes` and `tokens` (of answers), one is given."""

    target: ModelFolder
    prompts: tuple[Path, ...]
    out: Path
    minutes: float | None = None
    tokens: int | None = None
    vocabulary: int = 8192
    longest_answer: int = 160
    resume: bool = False
    seed: int = 0


def distil(options: DistilOptions, report: Report) -> Path:
    """Do all of it, telling `report` a line now and then; returns the drafter's folder.

    Interrupted (KeyboardInterrupt) while it learns, it stops with the best drafter so far.
    Raises `Problem`.
    """
    if (options.minutes is None) == (options.tokens is None):
        raise Problem("How long to work is not clear.", "Give --minutes or --tokens.")
    with suppress(AttributeError, OSError):
        os.nice(10)  # whatever else the machine is used for comes first
    folder, weights = WorkFolder(options.out), options.target.fingerprint
    texts = read_prompts(options.prompts, seed=options.seed)
    plan = _plan(options, texts, weights)
    folder.check(plan, resume=options.resume)

    report(f"loading {options.target.name}, and {len(texts):,} prompts")
    target = load(options.target)
    asked = _questions(texts, target, longest_answer=options.longest_answer)
    vocabulary: int = target.model(mx.zeros((1, 1), dtype=mx.int32)).shape[-1]
    shape = shape_for(target.model, rows=min(options.vocabulary, vocabulary))
    require_memory(memory_bytes(shape))
    answering = Answering(
        target,
        shape,
        asked,
        vocabulary=vocabulary,
        longest=options.longest_answer,
        seed=options.seed,
    )
    folder.begin(plan)  # from here on there is something to lose
    store = AnswerStore(folder.answers)
    budget = Budget(options.minutes, options.tokens)
    try:
        if not folder.checkpoint.is_file():
            answering.fill(store, budget=budget, report=report)
        held, shards = split(store.shards)
        mx.random.seed(options.seed)
        fitted = new_head(
            target.model, shape, likeliest(shards, vocabulary=vocabulary, count=shape.rows)
        )
        learning = Learning(
            fitted,
            embedding(target.model),
            store,
            vocabulary=vocabulary,
            held=held,
            checkpoint=folder.checkpoint,
            keep=lambda: _keep(fitted, options, weights),
            report=report,
        )
        learning.run(shards, budget)
    except KeyboardInterrupt:
        if not (options.out / "config.json").is_file():
            raise Problem(
                f"Stopped before anything was learned; {store.answered:,} tokens of answers "
                f"are kept in {options.out}.",
                "Go on with --resume.",
            ) from None
        report(f"stopped: the drafter in {options.out} can be used; --resume makes it better")
        return options.out
    folder.remove()
    return options.out


def _keep(fitted: BoundHead, options: DistilOptions, weights: str) -> None:
    """Write the drafter. Raises `Problem`, and leaves the one before."""
    try:
        save_head(fitted, options.out, target=options.target.name, fingerprint=weights)
    except (OSError, RuntimeError) as error:
        (options.out / f".{WEIGHTS_NAME}").unlink(missing_ok=True)
        raise Problem(
            f"The drafter cannot be written to {options.out}: {error}.",
            "Make room on the disk, and go on with --resume.",
        ) from error


def _plan(options: DistilOptions, texts: Sequence[str], weights: str) -> dict[str, str]:
    """What must be the same for the work to go on: where the files lie does not matter."""
    return {
        "--minutes": str(options.minutes),
        "--tokens": str(options.tokens),
        "--vocabulary": str(options.vocabulary),
        "--longest-answer": str(options.longest_answer),
        "seed": str(options.seed),
        "target": weights,
        "prompts": hashlib.sha256(json.dumps(texts).encode()).hexdigest(),
    }


def _questions(
    texts: Sequence[str], target: LoadedModel, *, longest_answer: int
) -> list[TokenizedPrompt]:
    """The prompts in tokens, by the target's own chat template where it has one."""
    longest = min(_LONGEST_PROMPT, target.context_length - longest_answer)
    asked = []
    for number, text in enumerate(texts):
        said = _as_chat(text, target)
        tokens = target.tokenizer.encode(said, add_special_tokens=False, verbose=False)
        if 2 <= len(tokens) <= longest:
            asked.append(TokenizedPrompt(tokens, _TEMPERATURES[number % len(_TEMPERATURES)]))
    if len(asked) < _FEWEST_PROMPTS:
        raise Problem(
            f"Only {len(asked)} of the {len(texts)} prompts can be used.",
            f"Give {_FEWEST_PROMPTS} or many more, of at most {max(0, longest)} tokens each.",
        )
    return asked


def _as_chat(text: str, target: LoadedModel) -> str:
    if not target.tokenizer.has_chat_template:
        return text
    try:
        said: str = target.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False
        )
    except Exception as error:  # a template is a program
        reason = " ".join(str(error).split()).rstrip(".")
        raise Problem(
            f"The target's chat template refuses a prompt: {reason}.", "Choose another target."
        ) from error
    return said


class WorkFolder:
    """The folder `out` of a distillation, and `work` in it, which is needed to resume it.

    `work` holds the plan, the answers and the checkpoint until all is done. Attributes: `out`;
    `answers` and `checkpoint`, paths in `work`.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self._work = out / "work"
        self.answers = self._work / "answers"
        self.checkpoint = self._work / "checkpoint.safetensors"
        self._plan = self._work / "plan.json"

    def check(self, plan: Mapping[str, str], *, resume: bool) -> None:
        """Refuse to mix two distillations, or to write over anything. Raises `Problem`."""
        try:
            if not resume:
                if self._plan.is_file() or not self._is_free():
                    raise Problem(
                        f"{self.out} is not empty.",
                        "Go on with --resume, or choose another --out.",
                    )
            elif not self._plan.is_file():
                raise Problem(
                    f"There is nothing to go on with in {self.out}.", "Leave out --resume."
                )
            else:
                begun = json.loads(self._plan.read_text())
                others = [name for name in plan if begun.get(name) != plan[name]]
                if others:
                    raise Problem(
                        f"{self.out} was begun with other {' and '.join(others)}.",
                        "Repeat the command as it was, or choose another --out.",
                    )
        except (OSError, ValueError, AttributeError) as error:
            raise self._unusable(error) from error

    def begin(self, plan: Mapping[str, str]) -> None:
        """Make what is not there yet. Raises `Problem`."""
        try:
            self._work.mkdir(parents=True, exist_ok=True)
            write_text(self._plan, json.dumps(dict(plan), indent=2))
        except OSError as error:
            raise self._unusable(error) from error

    def remove(self) -> None:
        """All is done: only the drafter stays."""
        shutil.rmtree(self._work, ignore_errors=True)

    def _is_free(self) -> bool:
        """Whether nothing is there, or only what a begin that was killed has left."""
        return not self.out.exists() or all(path == self._work for path in self.out.iterdir())

    def _unusable(self, error: Exception) -> Problem:
        return Problem(f"{self.out} cannot be used: {error}.", "Choose another --out.")
