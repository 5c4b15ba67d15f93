"""`slipstream distil`: the target answers, a drafter learns from the answers, the best is kept.

Knows the order of the work, its folder, and how it is resumed.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx

from engine.conversation.loading import LoadedModel, load
from engine.conversation.template import encode_prompt
from engine.distil.answering import Answering, TokenizedPrompt, require_memory, split
from engine.distil.budget import Reporter, WorkBudget
from engine.distil.folders import KeptAnswers, WorkFolder
from engine.distil.head_learner import HeadLearner
from engine.distil.prompts import read_prompts
from engine.distil.store import AnswerStore, likeliest
from engine.distil.training import Learning, memory_bytes
from engine.drafters.head_network import shape_for
from engine.request import Prompt, asked
from models.errors import Problem
from models.model_folder import ModelFolder

_TEMPERATURES = (0.0, 0.7, 0.0, 1.0)  # in turn
_LONGEST_PROMPT = 256  # tokens; longer ones take longer to read than their answers to write
_FEWEST_PROMPTS = 16


@dataclass(frozen=True, slots=True)
class DistilOptions:
    """The options of a distillation. Either `minutes` or `tokens` (of answers) is given.

    `answers`: a folder that keeps the answers, for other drafters to learn from; the target is not
    asked again for those in it. None: the answers are deleted when the drafter is finished.
    """

    target: ModelFolder
    prompts: tuple[Path, ...]
    out: Path
    answers: Path | None = None
    minutes: float | None = None
    tokens: int | None = None
    vocabulary: int = 8192
    longest_answer: int = 160
    resume: bool = False
    seed: int = 0


def distil(options: DistilOptions, report: Reporter) -> Path:
    """Distil a drafter; `report` gets a line now and then. Returns the drafter's folder.

    KeyboardInterrupt during training ends it with the best drafter so far. Raises `Problem`.
    """
    if (options.minutes is None) == (options.tokens is None):
        raise Problem("The command does not say how long to work.", "Give --minutes or --tokens.")
    with suppress(AttributeError, OSError):
        os.nice(10)  # other programs come first
    folder, weights = WorkFolder(options.out), options.target.fingerprint
    texts = read_prompts(options.prompts, seed=options.seed)
    asking = _asking(options, texts, weights)
    plan = asking | _learning(options)
    folder.check(plan, resume=options.resume)
    kept = None if options.answers is None else KeptAnswers(options.answers)
    if kept is not None:
        kept.check(asking)

    report(f"loading {options.target.name}, and {len(texts):,} prompts")
    target = load(options.target)
    asked = _questions(texts, target, longest_answer=options.longest_answer)
    vocabulary: int = target.model(mx.zeros((1, 1), dtype=mx.int32)).shape[-1]
    rows = min(options.vocabulary, vocabulary)
    shape = shape_for(target.model, rows=rows)
    weights_to_learn = HeadLearner.weights(target.model, rows=rows)
    require_memory(memory_bytes(weights_to_learn, rows=rows, width=shape.hidden_size))
    answering = Answering(
        target,
        shape,
        asked,
        vocabulary=vocabulary,
        longest=options.longest_answer,
        seed=options.seed,
    )
    folder.begin(plan)  # from here on there is work to lose
    if kept is not None:
        kept.begin(asking)
    store = AnswerStore(folder.answers if kept is None else kept.folder)
    budget = WorkBudget(options.minutes, options.tokens)
    try:
        if not folder.checkpoint.is_file():
            answering.fill(store, budget=budget, report=report)
        held, shards = split(store.shards)
        mx.random.seed(options.seed)
        learner = HeadLearner.begin(target, likeliest(shards, vocabulary=vocabulary, count=rows))
        learning = Learning(
            learner,
            store,
            vocabulary=vocabulary,
            held=held,
            checkpoint=folder.checkpoint,
            keep=lambda: _keep(learner, options, weights),
            report=report,
        )
        learning.run(shards, budget)
    except KeyboardInterrupt:
        if not (options.out / "config.json").is_file():
            raise Problem(
                f"Stopped before anything was learned; {store.answered:,} tokens of answers "
                f"are kept in {store.folder}.",
                "Continue with --resume.",
            ) from None
        report(f"stopped: the drafter in {options.out} can be used; --resume makes it better")
        return options.out
    folder.remove()
    return options.out


def _keep(learner: HeadLearner, options: DistilOptions, weights: str) -> None:
    """Write the drafter. If it raises `Problem`, the earlier drafter is unchanged."""
    try:
        learner.save(options.out, target=options.target.name, fingerprint=weights)
    except (OSError, RuntimeError) as error:
        raise Problem(
            f"The drafter cannot be written to {options.out}: {error}.",
            "Free some disk space, and continue with --resume.",
        ) from error


def _learning(options: DistilOptions) -> dict[str, str]:
    """The settings, besides those of the answers, that must be the same to resume."""
    return {
        "--minutes": str(options.minutes),
        "--tokens": str(options.tokens),
        "--vocabulary": str(options.vocabulary),
        "--answers": str(options.answers and options.answers.absolute()),
    }


def _asking(options: DistilOptions, texts: Sequence[str], weights: str) -> dict[str, str]:
    """The settings that the answers depend on; the prompts' files may have moved."""
    return {
        "--longest-answer": str(options.longest_answer),
        "seed": str(options.seed),
        "target": weights,
        "prompts": hashlib.sha256(json.dumps(texts).encode()).hexdigest(),
    }


def _questions(
    texts: Sequence[str], target: LoadedModel, *, longest_answer: int
) -> list[TokenizedPrompt]:
    """Encode the prompts, by the target's chat template if it has one. Raises `Problem`."""
    longest = min(_LONGEST_PROMPT, target.context_length - longest_answer)
    questions = []
    for number, text in enumerate(texts):
        prompt = asked(text) if target.tokenizer.has_chat_template else Prompt(text=text)
        tokens = encode_prompt(target.tokenizer, prompt)
        if 2 <= len(tokens) <= longest:
            questions.append(TokenizedPrompt(tokens, _TEMPERATURES[number % len(_TEMPERATURES)]))
    if len(questions) < _FEWEST_PROMPTS:
        raise Problem(
            f"Only {len(questions)} of the {len(texts)} prompts can be used.",
            f"Give {_FEWEST_PROMPTS} or many more, of at most {max(0, longest)} tokens each.",
        )
    return questions
