"""`python -m tests.lab.gpu`: the engine on a GPU, in ten minutes, the most valuable first.

On a Mac it needs nothing else, on an NVIDIA GPU `mlx` with `mlx-cuda-13`, and NVIDIA's libraries.
The report is written after each step, so a
run that is cut off loses nothing. `--dry-run` does it with tiny models, on whatever there is.
"""

import engine  # noqa: F401  # puts OpenBLAS in front

# isort: split
import json
import platform
import traceback
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Annotated

import mlx.core as mx
import typer

from engine.conversation.loading import LoadedModel
from engine.conversation.proof import settle
from engine.device import free_memory
from engine.draft_length.calibrations import CalibrationStore
from models.model_folder import ModelFolder
from tests.lab.gpu import timing
from tests.lab.gpu.lossless import Shape, Target, make, matrix, prompt

_NOTE = "The weights are random: texts mean nothing, bits and times do."
_NO_MAC = (
    "These ratios are no Mac's. Here other kernels run, a pass over two rows costs what one over "
    "sixteen does, and memory is several times as fast."
)
_TYPES = {"4 bits": 4, "bfloat16": None}
WISHES = ("auto", "on")
_DRY_SECONDS = 100.0


class Report:
    """A JSON file that grows, and lines for whoever watches."""

    def __init__(self, path, *, seconds):
        self._path, self._began, self._seconds = path, monotonic(), seconds
        note = _NOTE if mx.metal.is_available() else f"{_NOTE} {_NO_MAC}"
        self._parts = {"note": note, "device": _device()}
        self.say(note)
        self.say(json.dumps(self._parts["device"]))

    def attempt(self, part, steps, *, until):
        """Do a part, whose steps give what is known of it so far, up to this share of the time. A
        failure is reported, and other parts go on."""
        self.say(f"{part} ...")
        try:
            for value in steps() if self._share < until else ():
                self._write(part, value)
                if self._share > until:
                    self.say(f"{part}: cut short")
                    break
            self.say(f"{part}: {json.dumps(self._parts.get(part, 'no time is left'))[:2000]}")
        except Exception:
            lines = traceback.format_exc().splitlines()[-12:]
            self._write(f"{part}, failed", lines)
            self.say("\n".join([f"{part} FAILED", *lines]))

    def say(self, line):
        print(f"{monotonic() - self._began:6.1f} s  {line}", flush=True)

    @property
    def _share(self):
        return (monotonic() - self._began) / self._seconds

    def _write(self, part, value):
        self._parts[part] = value
        self._parts["seconds"] = round(monotonic() - self._began, 1)
        self._path.write_text(json.dumps(self._parts, indent=1))


def _device():
    known = {name: str(value) for name, value in mx.device_info().items()}
    versions = {name: version(name) for name in ("mlx", "mlx-lm")}
    return known | versions | {"used": str(mx.default_device()), "system": platform.platform()}


def _texts(shape, bits, *, seed, count):
    """Greedy texts by all kinds of drafts against plain ones; totals first."""
    target = Target(make(shape, bits=bits), drafting=shape.drafting)
    cases = []
    for case in matrix(target, prompt(shape, seed=seed), count=count):
        cases.append(case)
        counted = ("tokens", "accepted", "trees", "near ties", "different")
        totals = {name: sum(each.get(name, 0) for each in cases) for name in counted}
        wrong = [each for each in cases if each.get("different") or "fault" in each]
        yield {
            **totals,
            "cases": len(cases) - 1,
            "plain": cases[0],
            "wrong": wrong,
            "all": cases[1:],
        }


class Large:
    """What is measured with one large model."""

    def __init__(self, shape, bits, folder, *, count):
        self._count, self._folder = count, folder
        model = make(shape, bits=bits)
        self._target = Target(model, drafting=shape.drafting)
        self._loaded = LoadedModel(
            ModelFolder(folder), model, None, frozenset(), context_length=32768, precision="random"
        )
        self._prompt = prompt(shape, seed=7)

    def exact(self):
        """Whether passes are exact, and what that costs. Then texts by drafts of many kinds, in the
        exact mode: none may differ. What costs nothing stays for the other parts."""
        settled = partial(settle, self._loaded, store=CalibrationStore(self._folder / "verdicts"))
        found = {}
        try:
            for wish in WISHES:
                found[wish] = asdict(settled(wish)) | {"words": self._loaded.promise.now.in_words()}
                yield found
            self._target.promise = self._loaded.promise
            for case in matrix(self._target, self._prompt, count=self._count):
                found["texts"] = found.get("texts", 0) + 1
                if case.get("near ties") or case.get("different") or "fault" in case:
                    found.setdefault("not equal", []).append(case)
                yield found
        finally:
            settled("auto")

    def waiting(self):
        """What is shown when, the host's time, and the waits of a round."""
        drafters = {"model": self._target.model_drafter, "suffix": self._knowing()}
        found = {}
        for name, make_drafter in drafters.items():
            for measure in (timing.left_when_shown, timing.host):
                figures = measure(self._target, make_drafter, self._prompt, count=self._count)
                found[f"{measure.__name__}, {name}"] = figures
                yield found

    def costs(self):
        """What passes cost by rows, and trees against chains."""
        found = {}
        found["calibration"] = timing.costs(self._target, self._target.model_drafter)
        yield found
        found["verdicts"] = timing.trees(self._target, self._script(), start=len(self._prompt))
        yield found

    def _script(self):
        return [*self._prompt, *self._target.texts.plain(self._prompt, self._count).text]

    def _knowing(self):
        return self._target.drafters(self._script())["known"]


def _tiny(shape):
    return replace(
        shape, hidden=64, feed_forward=128, heads=4, key_heads=2, head_dim=64, vocabulary=600
    )


def _write_texts(report, shapes, *, seed, count, begins, until):
    """Texts of each model in each number type, in equal shares of the time."""
    kinds = [(kind, shape) for kind in _TYPES for shape in shapes]
    for number, (kind, shape) in enumerate(kinds, 1):
        name = f"texts: {shape.architecture}, {shape.layers} layers, {kind}, prompt {seed}"
        steps = partial(_texts, shape, _TYPES[kind], seed=seed, count=count)
        report.attempt(name, steps, until=begins + (until - begins) * number / len(kinds))
        free_memory()


def _measure(report, shape, kind, *, count, until):
    """Times, with a large model."""
    large = []
    with TemporaryDirectory() as folder:

        def load():
            large.append(Large(shape, _TYPES[kind], Path(folder), count=count))
            yield {"active bytes": mx.get_active_memory(), "peak": mx.get_peak_memory()}

        report.attempt(f"large, {kind}: loading", load, until=until)
        for each in large:
            report.attempt(f"large, {kind}: exact", each.exact, until=until)
            report.attempt(f"large, {kind}: waiting", each.waiting, until=until)
            report.attempt(f"large, {kind}: costs", each.costs, until=until)


def main(
    out: Annotated[Path, typer.Option(help="The report, which grows.")] = Path("gpu.json"),
    seconds: Annotated[float, typer.Option(help="How long it may take.")] = 540.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tiny models.")] = False,
    texts_until: Annotated[float, typer.Option(help="When times begin, a share.")] = 0.4,
    times_until: Annotated[float, typer.Option(help="When texts go on, a share.")] = 0.9,
) -> None:
    """Measure the engine on a GPU."""
    if not (dry_run or mx.default_device() == mx.gpu):
        raise typer.BadParameter("there is no GPU here: --dry-run tries the script itself")
    shallow = [Shape("qwen3", layers=4, drafting=2), Shape("llama", layers=4, drafting=2)]
    deep, count = Shape("qwen3", layers=36, drafting=4), 128
    if dry_run:
        shallow = [_tiny(each) for each in shallow]
        deep, count = replace(_tiny(deep), layers=6), 10
        seconds = min(seconds, _DRY_SECONDS)
    report = Report(out, seconds=seconds)
    _write_texts(report, shallow, seed=0, count=count, begins=0.0, until=texts_until)
    for kind in _TYPES:
        free_memory()
        _measure(report, deep, kind, count=count, until=times_until)
    free_memory()
    _write_texts(report, shallow, seed=1, count=count, begins=times_until, until=0.98)


if __name__ == "__main__":
    typer.run(main)
