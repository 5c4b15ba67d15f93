"""`slipstream distil`: the target answers, a head learns from the answers, the best one is kept.

Knows the order of the work and how it is taken up again; what is done is in the modules beside it.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx

from engine.anatomy import embedding
from engine.distil.answering import Answering, require_memory, split
from engine.distil.answers import Asked
from engine.distil.budget import Budget, Report
from engine.distil.learning import Learning
from engine.distil.prompts import read_prompts
from engine.distil.store import AnswerStore, likeliest
from engine.distil.training import memory_bytes
from engine.distil.work_folder import WorkFolder
from engine.drafters.head_network import FittedHead, new_head, save_head, shape_for
from engine.loading import LoadedModel, load
from models.drafter_folders import WEIGHTS_NAME
from models.errors import Problem
from models.folders import ModelFolder

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


def _keep(fitted: FittedHead, options: DistilOptions, weights: str) -> None:
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


def _questions(texts: Sequence[str], target: LoadedModel, *, longest_answer: int) -> list[Asked]:
    """The prompts in tokens, by the target's own chat template where it has one."""
    longest = min(_LONGEST_PROMPT, target.context_length - longest_answer)
    asked = []
    for number, text in enumerate(texts):
        said = _as_chat(text, target)
        tokens = target.tokenizer.encode(said, add_special_tokens=False, verbose=False)
        if 2 <= len(tokens) <= longest:
            asked.append(Asked(tokens, _TEMPERATURES[number % len(_TEMPERATURES)]))
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
