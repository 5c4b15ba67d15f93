"""`slipstream distil`: the target answers, a drafter learns from the answers, the best is kept.

Knows the order of the work, its folder, and how it is resumed.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx

from engine.conversation.loading import LoadedModel, load
from engine.conversation.template import encode_prompt
from engine.distil.answering import Answering, TokenizedPrompt, require_memory, split
from engine.distil.budget import Reporter, WorkBudget
from engine.distil.head_learner import HeadLearner
from engine.distil.prompts import read_prompts
from engine.distil.store import AnswerStore, likeliest
from engine.distil.training import Learning, memory_bytes
from engine.drafters.head_network import shape_for
from engine.request import Prompt, asked
from models.errors import Problem
from models.files import locked, write_text
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
    answering = _answering(options, target, asked, vocabulary=vocabulary, rows=rows)
    with folder.at_work(plan, resume=options.resume):  # from here on there is work to lose
        if kept is not None:
            kept.begin(asking)
        store = AnswerStore(folder.answers if kept is None else kept.folder)
        budget = WorkBudget(options.minutes, options.tokens)
        try:
            if not folder.checkpoint.is_file():
                answering.fill(store, budget=budget, report=report)
            held, shards = split(store.shards)
            mx.random.seed(options.seed)
            frequent = likeliest(shards, vocabulary=vocabulary, count=rows)
            learner = HeadLearner.begin(target, frequent)
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
            report(f"stopped: the drafter in {options.out} can be used; improve it with --resume")
            return options.out
        folder.remove()
    return options.out


def _answering(
    options: DistilOptions,
    target: LoadedModel,
    asked: Sequence[TokenizedPrompt],
    *,
    vocabulary: int,
    rows: int,
) -> Answering:
    """Return the work of answering. Raises `Problem` without the memory to learn from it."""
    shape = shape_for(target.model, rows=rows)
    weights = HeadLearner.weights(target.model, rows=rows)
    require_memory(memory_bytes(weights, rows=rows, width=shape.hidden_size))
    longest, seed = options.longest_answer, options.seed
    return Answering(target, shape, asked, vocabulary=vocabulary, longest=longest, seed=seed)


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
    """Return the settings that must be the same to resume, besides `_asking`."""
    return {
        "--minutes": str(options.minutes),
        "--tokens": str(options.tokens),
        "--vocabulary": str(options.vocabulary),
        "--answers": str(options.answers and options.answers.absolute()),
    }


def _asking(options: DistilOptions, texts: Sequence[str], weights: str) -> dict[str, str]:
    """Return the settings that the answers depend on; the prompts' files may have moved."""
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
            f"Give at least {_FEWEST_PROMPTS}, of at most {max(0, longest)} tokens each.",
        )
    return questions


class Planned:
    """A folder with the settings that it was begun with, in a `file`. `option` names the folder."""

    def __init__(self, folder: Path, file: Path, option: str) -> None:
        self.folder, self._file, self._option = folder, file, option

    def begin(self, settings: Mapping[str, str]) -> None:
        """Create the folder, and store the settings. Raises `Problem`."""
        with self._usable():
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_text(self._file, json.dumps(dict(settings), indent=2))

    def _require(self, settings: Mapping[str, str]) -> None:
        """Raise `Problem` if the folder was started with different settings."""
        before = json.loads(self._file.read_text())
        others = [name for name in settings if before.get(name) != settings[name]]
        if others:
            raise Problem(
                f"{self.folder} was started with different {' and '.join(others)}.",
                f"Repeat the command as it was, or choose another {self._option}.",
            )

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Turn errors of the disk, or of a damaged file, into a `Problem`."""
        try:
            yield
        except (OSError, ValueError, AttributeError) as error:
            raise Problem(
                f"{self.folder} cannot be used: {error}.", f"Choose another {self._option}."
            ) from error

    def _shown(self) -> set[Path]:
        """The files in the folder, without hidden ones: a Mac's Finder has its own in each."""
        files = self.folder.iterdir() if self.folder.exists() else ()
        return {path for path in files if not path.name.startswith(".")}


class WorkFolder(Planned):
    """The folder `out` of a distillation, with a folder `work` in it for resuming.

    `work` holds the plan, the answers and the checkpoint until the work is done. Attributes:
    `answers` and `checkpoint`, paths in `work`.
    """

    def __init__(self, out: Path) -> None:
        self._work = out / "work"
        self.answers = self._work / "answers"
        self.checkpoint = self._work / "checkpoint.safetensors"
        super().__init__(out, self._work / "plan.json", "--out")

    def check(self, plan: Mapping[str, str], *, resume: bool) -> None:
        """Raise `Problem` if this would mix two distillations, or overwrite anything."""
        out = self.folder
        with self._usable():
            begun = self._file.is_file()
            if resume and begun:
                self._require(plan)
            elif resume:
                raise Problem(f"There is nothing to resume in {out}.", "Leave out --resume.")
            # An interrupted `begin` may have left its folder.
            elif begun or self._shown() - {self._work}:
                remedy = "Continue with --resume, or choose another --out."
                raise Problem(f"{out} is not empty.", remedy)

    @contextmanager
    def at_work(self, plan: Mapping[str, str], *, resume: bool) -> Iterator[None]:
        """Begin, and hold the folder inside the block. Raises `Problem` if another distillation
        works in it, or has begun in it since `check`."""
        with ExitStack() as held:
            with self._usable():
                self._work.mkdir(parents=True, exist_ok=True)
                try:
                    held.enter_context(locked(self._work / "plan", seconds=0))
                except TimeoutError:
                    raise Problem(
                        f"Another distillation works in {self.folder}.",
                        "Let it finish, or choose another --out.",
                    ) from None
            self.check(plan, resume=resume)
            self.begin(plan)
            yield

    def remove(self) -> None:
        """Remove everything except the drafter."""
        shutil.rmtree(self._work, ignore_errors=True)


class KeptAnswers(Planned):
    """A folder that keeps answers, so that several distillations can learn from them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, folder / "asked.json", "--answers")

    def check(self, asking: Mapping[str, str]) -> None:
        """Raise `Problem` if the folder holds other files, or answers with other settings.

        `asking`: the settings that the answers depend on.
        """
        with self._usable():
            if self._file.is_file():
                self._require(asking)
            elif self._shown():
                raise Problem(f"{self.folder} contains other files.", "Choose another --answers.")
