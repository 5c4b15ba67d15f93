"""A target and the drafter that goes with it, from what a person wrote.

A drafter is named by one word, or by several joined with `+`, asked in that order:
`none`, `lookup`, `head` (the one distilled for this target), `early-exit` (or `early-exit:12`,
after that many layers), or a model or a head: its folder, its hub id or its name. `auto` is the
best that needs no choice: `lookup+head` where there is a head, else `lookup`.
"""

import os
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx

from engine.blas import choose_blas
from engine.circumstances import power_mode
from engine.decoder import Decoder
from engine.draft_length import LONGEST, DraftLength
from engine.draft_length.calibrations import Pair
from engine.draft_length.policy import Automatic, Fixed
from engine.drafters import Drafter
from engine.drafters.cascade import Cascade
from engine.drafters.early_exit import EarlyExitDrafter
from engine.drafters.head import HeadDrafter
from engine.drafters.lookup import LookupDrafter
from engine.drafters.model import ModelDrafter
from engine.drafters.none import NoDrafter
from engine.head import load_head
from engine.loading import LoadedModel, load
from models.download import file_sha256
from models.drafter_folders import WEIGHTS_NAME, find_head, is_head
from models.errors import Problem
from models.fingerprint import fingerprint
from models.installed.last_used import mark_used
from models.installed.resolve import resolve_drafter
from models.token_tables import require_same_tokens


def make_drafter(
    name: str,
    *,
    target: LoadedModel,
    decoder: Decoder,
    load: Callable[[Path], LoadedModel] = load,
) -> Drafter:
    """The drafter called `name`, for a target read by `decoder`. Raises `Problem`."""
    drafters = [_one(part, target, decoder, load) for part in _parts(name, target)]
    return drafters[0] if len(drafters) == 1 else Cascade(*drafters)


def _parts(name: str, target: LoadedModel) -> list[str]:
    """The drafters to ask, in order."""
    if name.strip() == "auto":
        return ["lookup"] if find_head(fingerprint(target.folder)) is None else ["lookup", "head"]
    return [part.strip() for part in name.split("+")]


def _one(
    name: str, target: LoadedModel, decoder: Decoder, load: Callable[[Path], LoadedModel]
) -> Drafter:
    word, _, layers = name.partition(":")
    if name == "none":
        return NoDrafter()
    if name == "lookup":
        return LookupDrafter()
    if word == "early-exit" and (layers == "" or layers.isdecimal()):
        half = max(1, len(target.model.layers) // 2)
        return EarlyExitDrafter(decoder, layers=int(layers) if layers else half)
    folder = _shipped_head(target) if name == "head" else _folder(name)
    if is_head(folder):
        known = fingerprint(target.folder)
        return HeadDrafter(
            decoder, load_head(folder, fingerprint=known, vocabulary=decoder.vocabulary)
        )
    require_same_tokens(target.folder, folder)
    mark_used(folder)
    return ModelDrafter(Decoder(load(folder).model), vocabulary=decoder.vocabulary)


def identify(name: str, target: LoadedModel, decoder: Decoder) -> Pair:
    """What is measured of this pair belongs to. Raises `Problem` where its files are gone."""
    quantized, matrices = decoder.timeline.quantized, choose_blas()
    return Pair(
        target=fingerprint(target.folder),
        drafter="+".join(_identify(part, target) for part in _parts(name, target)),
        precision=target.precision,
        caches=f"{quantized.bits}-bit from {quantized.start}" if quantized else "as they are",
        chip=str(mx.device_info()["device_name"]),
        backend="GPU" if mx.default_device() == mx.gpu else f"CPU, {os.cpu_count()} cores",
        mlx=mx.__version__,  # type: ignore[attr-defined] # its stubs lack it
        matrices=str(matrices),
        threads=matrices.threads,
        power=power_mode(),
    )


def _identify(name: str, target: LoadedModel) -> str:
    """One drafter: its name, or what its weights are."""
    if name in ("none", "lookup") or name.startswith("early-exit"):
        return name
    folder = _shipped_head(target) if name == "head" else _folder(name)
    if is_head(folder):
        return f"head {file_sha256(folder / WEIGHTS_NAME)[:16]}"
    return f"model {fingerprint(folder)}"


def _folder(name: str) -> Path:
    """The folder of the drafting model or the head that is called so. Raises `Problem`."""
    path = os.path.expanduser(name)
    if name and os.path.exists(path) and not name.lower().endswith(".gguf"):
        return Path(path)
    try:
        return resolve_drafter(name)
    except Problem as problem:
        if os.path.exists(path) or (name.count("/") == 1 and name[0] not in "~./"):
            raise  # a hub id: it is said how to fetch it
        raise Problem(
            f"There is no drafter and no folder {name!r} ({problem.message.rstrip('.')}).",
            "Choose auto, none, lookup, head, early-exit, a model, or several joined with +.",
        ) from problem


def _shipped_head(target: LoadedModel) -> Path:
    folder = find_head(fingerprint(target.folder))
    if folder is None:
        raise Problem(
            f"There is no drafter head for {target.folder.name}.",
            f"Make one (slipstream distil --target {target.folder} ...), or choose lookup.",
        )
    return folder


def make_policy(length: str) -> DraftLength:
    """The draft length that a person wrote: `auto`, or a number from 0 to 16."""
    if length == "auto":
        return Automatic()
    if length.isdecimal() and int(length) <= LONGEST:
        return Fixed(int(length))
    raise Problem(
        f"The draft length cannot be {length!r}.", f"Choose auto or a number from 0 to {LONGEST}."
    )
