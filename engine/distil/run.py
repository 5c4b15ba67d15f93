"""`slipstream distil`: the target answers, a head learns from the answers, the best one is kept.

Knows the order of the work, the folder it is kept in, and how it is resumed.
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
from engine.distil.budget import Reporter, WorkBudget
from engine.distil.prompts import read_prompts
from engine.distil.store import AnswerStore, likeliest
from engine.distil.training import Learning, memory_bytes
from engine.drafters.head_network import BoundHead, new_head, save_head, shape_for
from engine.loading import LoadedModel, load
from engine.model_parts import embedding
from models.drafter_kinds import HEAD_WEIGHTS_NAME
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


def distil(options: DistilOptions, report: Reporter) -> Path:
    """Do all of it; `report` gets a line now and then. Returns the drafter's folder.

    When interrupted (KeyboardInterrupt) during training, it stops with the best drafter so far.
    Raises `Problem`.
    """
    if (options.minutes is None) == (options.tokens is None):
        raise Problem("The command does not say how long to work.", "Give --minutes or --tokens.")
    with suppress(AttributeError, OSError):
        os.nice(10)  # other programs come first
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
    folder.begin(plan)  # from here on there is work to lose
    store = AnswerStore(folder.answers)
    budget = WorkBudget(options.minutes, options.tokens)
    try:
        if not folder.checkpoint.is_file():
            answering.fill(store, budget=budget, report=report)
        held, shards = split(store.shards)
        mx.random.seed(options.seed)
        bound = new_head(
            target.model, shape, likeliest(shards, vocabulary=vocabulary, count=shape.rows)
        )
        learning = Learning(
            bound,
            embedding(target.model),
            store,
            vocabulary=vocabulary,
            held=held,
            checkpoint=folder.checkpoint,
            keep=lambda: _keep(bound, options, weights),
            report=report,
        )
        learning.run(shards, budget)
    except KeyboardInterrupt:
        if not (options.out / "config.json").is_file():
            raise Problem(
                f"Stopped before anything was learned; {store.answered:,} tokens of answers "
                f"are kept in {options.out}.",
                "Continue with --resume.",
            ) from None
        report(f"stopped: the drafter in {options.out} can be used; --resume makes it better")
        return options.out
    folder.remove()
    return options.out


def _keep(bound: BoundHead, options: DistilOptions, weights: str) -> None:
    """Write the drafter. Raises `Problem`, and then leaves the earlier one."""
    try:
        save_head(bound, options.out, target=options.target.name, fingerprint=weights)
    except (OSError, RuntimeError) as error:
        (options.out / f".{HEAD_WEIGHTS_NAME}").unlink(missing_ok=True)
        raise Problem(
            f"The drafter cannot be written to {options.out}: {error}.",
            "Free some disk space, and continue with --resume.",
        ) from error


def _plan(options: DistilOptions, texts: Sequence[str], weights: str) -> dict[str, str]:
    """The settings that must be the same to resume; the files may have moved."""
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
        rendered = _as_chat(text, target)
        tokens = target.tokenizer.encode(rendered, add_special_tokens=False, verbose=False)
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
        rendered: str = target.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False
        )
    except Exception as error:  # a template is a program
        reason = " ".join(str(error).split()).rstrip(".")
        raise Problem(
            f"The target's chat template refuses a prompt: {reason}.", "Choose another target."
        ) from error
    return rendered


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
        """Refuse to mix two distillations, or to overwrite anything. Raises `Problem`."""
        try:
            if not resume:
                if self._plan.is_file() or not self._is_free():
                    raise Problem(
                        f"{self.out} is not empty.",
                        "Continue with --resume, or choose another --out.",
                    )
            elif not self._plan.is_file():
                raise Problem(f"There is nothing to resume in {self.out}.", "Leave out --resume.")
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
        """Create the folder and store the plan. Raises `Problem`."""
        try:
            self._work.mkdir(parents=True, exist_ok=True)
            write_text(self._plan, json.dumps(dict(plan), indent=2))
        except OSError as error:
            raise self._unusable(error) from error

    def remove(self) -> None:
        """Remove everything but the drafter."""
        shutil.rmtree(self._work, ignore_errors=True)

    def _is_free(self) -> bool:
        """Whether the folder is empty, apart from an interrupted `begin`."""
        return not self.out.exists() or all(path == self._work for path in self.out.iterdir())

    def _unusable(self, error: Exception) -> Problem:
        return Problem(f"{self.out} cannot be used: {error}.", "Choose another --out.")
