"""Other engines, where they are installed: each is one more contestant.

- mlx-dspark, lookup: the same arrays in memory, the same tokenizer. As a library it leaves the
  kernels off that its command line tunes for a machine.
- llama-cpp-python, plain and prompt lookup: the same GGUF file, read by llama.cpp's own kernels
  with its own rounding, so that even greedy texts may part.

Nothing here is needed, nothing is installed or fetched. Knows their public calls; how they are
timed is `contestants`' definition.
"""

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

import mlx.core as mx

from engine.bench.contestants import (
    HEADROOM,
    Assignment,
    Contestant,
    Measurement,
    collect,
    measurement,
)
from engine.bench.figures import Step, steps_of_flags
from engine.loading import LoadedModel

_LONGEST_COPY = 32  # what mlx-dspark may draft at once, so that none is cut short by a limit
_LLAMA_COPY = 10  # llama-cpp-python's own default for a GPU; it recommends 2 on a CPU
_LLAMA_COPY_ON_CPU = 2

Import = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Peers:
    """Those that can take part; `notes`, a line each: what they are, or why they are not there."""

    contestants: tuple[Contestant, ...] = ()
    notes: tuple[str, ...] = ()


def find_peers(
    target: LoadedModel,
    *,
    gguf: Path | None,
    context: int,
    find: Import = importlib.import_module,
) -> Peers:
    """What is installed here. `gguf`: the file that `target` was made of, for llama.cpp.

    `context`: tokens of the longest prompt with its answer.
    """
    return _join(_dspark(target, find), _llama(target, gguf, context, find))


def _join(*peers: Peers) -> Peers:
    return Peers(
        tuple(each for some in peers for each in some.contestants),
        tuple(note for some in peers for note in some.notes),
    )


def _dspark(target: LoadedModel, find: Import) -> Peers:
    module = _imported("mlx_dspark", "mlx-dspark", find)
    if isinstance(module, str):
        return Peers(notes=(module,))
    try:
        contestant = DSparkLookup("mlx-dspark lookup", target=target, module=module)
    except Exception as error:  # see _imported
        return Peers(notes=(f"mlx-dspark is left out: {_said(error)}.",))
    return Peers(
        (Guarded(contestant),),
        (f"mlx-dspark {_version('mlx-dspark')}: its library's defaults, no tuned kernels.",),
    )


def _llama(target: LoadedModel, gguf: Path | None, context: int, find: Import) -> Peers:
    if gguf is None:
        return Peers(notes=("llama-cpp-python is left out: it needs the GGUF file (--gguf FILE).",))
    module = _imported("llama_cpp", "llama-cpp-python", find)
    if isinstance(module, str):
        return Peers(notes=(module,))
    size = _LLAMA_COPY_ON_CPU if mx.default_device() == mx.cpu else _LLAMA_COPY
    context += HEADROOM + _LLAMA_COPY + 1
    shared = {"target": target, "module": module, "gguf": gguf, "context": context}
    return Peers(
        (
            Guarded(LlamaCpp("llama.cpp plain", **shared)),
            Guarded(LlamaCpp(f"llama.cpp lookup {size}", **shared, lookup=size)),
        ),
        (f"llama-cpp-python {_version('llama-cpp-python')}: {gguf.name}, with its own kernels.",),
    )


def _imported(module: str, package: str, find: Import) -> Any:
    """The module, or a line that says why there is none."""
    try:
        return find(module)
    except ModuleNotFoundError as error:
        if error.name == module:
            return f"{package} is not installed; with it, it would take part."
        return f"{package} is left out: it needs {error.name}."
    except Exception as error:  # a foreign package may fail in any way, and none is needed
        return f"{package} is left out: {_said(error)}."


def _said(error: Exception) -> str:
    return (" ".join(str(error).split()) or type(error).__name__).rstrip(".")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"


class Guarded:
    """A contestant whose failures, of whatever kind, are its own: ValueError, and the rest goes on.

    What another engine raises is not ours to know, and one that changed must not end a benchmark.
    """

    def __init__(self, inner: Contestant) -> None:
        self.name = inner.name
        self._inner = inner

    def run(self, assignment: Assignment) -> Measurement:
        try:
            return self._inner.run(assignment)
        except Exception as error:
            raise ValueError(f"{type(error).__name__}: {_said(error)}") from error


class DSparkLookup:
    """mlx-dspark's prompt lookup (its `lookup_generate`), on our model and tokenizer."""

    def __init__(self, name: str, *, target: LoadedModel, module: Any) -> None:
        self.name = name
        self._loaded = target
        self._module = module
        self._target = module.Target(target.model, target.tokenizer)

    def run(self, assignment: Assignment) -> Measurement:
        times: list[float] = []
        steps: list[Step] = []

        def on_round(*, drafted: int, accepted: int, **rest: object) -> None:
            times.append(perf_counter())
            steps.append(Step(drafted, accepted))

        def on_text(text: str) -> None:
            if 1 + _committed(steps) >= assignment.limit:
                raise self._module.StopStreaming

        result = self._module.lookup_generate(
            self._target,
            self._loaded.tokenizer,
            prompt_ids=list(assignment.prompt),
            max_new_tokens=assignment.limit + _LONGEST_COPY + 2,
            temperature=assignment.temperature,
            seed=assignment.seed,
            on_text=on_text,
            on_round=on_round,
        )
        ids = list(result.token_ids)
        if not times:  # the first token ended the text: there is nothing to time
            return measurement(ids, (), 0.0, assignment)
        played = _until(steps, ids, assignment.limit)
        ids = ids[: 1 + _committed(played)]
        seconds = times[len(played) - 1] - times[0]
        return measurement(ids, tuple(played[1:]), seconds, assignment)


def _committed(steps: Sequence[Step]) -> int:
    return sum(step.accepted + step.own for step in steps)


def _until(steps: Sequence[Step], ids: Sequence[int], limit: int) -> list[Step]:
    """The rounds up to the one that reached `limit`; the last one without what an end cut off.

    The first of `ids` came from the prompt, before any round.
    """
    played: list[Step] = []
    for step in steps:
        played.append(step)
        if 1 + _committed(played) >= limit:
            break
    excess = 1 + _committed(played) - len(ids)
    if excess > 0:
        last = played[-1]
        played[-1] = replace(last, accepted=last.accepted + 1 - excess, own=False)
    return played


class LlamaCpp:
    """llama-cpp-python's `Llama.generate`, plain or with its prompt lookup of `lookup` tokens."""

    def __init__(
        self,
        name: str,
        *,
        target: LoadedModel,
        module: Any,
        gguf: Path,
        context: int,
        lookup: int = 0,
    ) -> None:
        self.name = name
        self._target = target
        self._module = module
        self._gguf = gguf
        self._context = context
        self._drafts = _Drafts(module, lookup) if lookup else None
        self._llama: Any = None  # a second copy of the weights: not before it is wanted

    def run(self, assignment: Assignment) -> Measurement:
        if self._llama is None:
            self._llama = self._open()
        if max(assignment.prompt) >= self._llama.n_vocab():
            raise ValueError(f"{self._gguf.name} holds another model: it has fewer tokens")
        self._llama.reset()
        self._llama.set_seed(assignment.seed)
        drafts = self._drafts
        if drafts:
            drafts.made.clear()
        tokens = self._llama.generate(
            list(assignment.prompt),
            top_k=0,
            top_p=1.0,
            min_p=0.0,
            temp=assignment.temperature,
            repeat_penalty=1.0,
        )
        with closing(tokens):
            flagged = _flagged(tokens, drafts.made if drafts else [])
            ids, flags, seconds = collect(flagged, self._target, assignment.limit)
        steps = steps_of_flags(flags, length=0)
        if drafts:
            pairs = zip(steps, drafts.made, strict=False)  # the last draft may not be judged
            steps = tuple(replace(step, proposed=len(draft)) for step, draft in pairs)
        return measurement(ids, steps, seconds, assignment, same_weights=False)

    def _open(self) -> Any:
        on_cpu = mx.default_device() == mx.cpu
        try:
            return self._module.Llama(
                model_path=str(self._gguf),
                n_ctx=self._context,
                n_gpu_layers=0 if on_cpu else -1,
                n_threads=os.cpu_count() if on_cpu else None,  # its default is half of them
                draft_model=self._drafts,
                verbose=False,
            )
        except (RuntimeError, ValueError, OSError) as error:
            raise ValueError(f"{self._gguf.name} cannot be opened: {error}") from error


class _Drafts:
    """llama-cpp-python's prompt lookup, with its drafts written down."""

    def __init__(self, module: Any, size: int) -> None:
        lookup = importlib.import_module(f"{module.__name__}.llama_speculative")
        self._inner = lookup.LlamaPromptLookupDecoding(num_pred_tokens=size)
        self.made: list[list[int]] = []

    def __call__(self, input_ids: Any, /, **options: Any) -> Any:
        draft = self._inner(input_ids, **options)
        self.made.append([int(token) for token in draft])
        return draft


def _flagged(tokens: Iterator[int], drafts: list[list[int]]) -> Iterator[tuple[int, bool]]:
    """Tokens, and whether each was drafted: it is where it equals the latest draft's next one.

    The draft for a round is there before the round's first token is handed over.
    """
    seen, position = 0, 0
    for token in tokens:
        if len(drafts) > seen:
            seen, position = len(drafts), 0
        draft = drafts[-1] if drafts else []
        drafted = position < len(draft) and token == draft[position]
        position = position + 1 if drafted else len(draft)
        yield int(token), drafted
