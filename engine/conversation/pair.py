"""A target and the drafter that goes with it, from what the user wrote.

A drafter is named by one word, or by several joined with `+`, asked in that order:
`none`, `lookup`, `suffix`, `lookahead` (or `lookahead:5,3,5`: see `LookaheadDrafter`),
`head` (the one distilled for this target), `early-exit` (or `early-exit:12`, after that many
layers), or a model or a head: its folder, its hub id or its name. `auto` is `suffix`
with the best that is here: the target's own MTP module, else a drafter that others have trained for
it, else its head. The words are resolved before anything
is loaded (`models.installed.resolve`).
"""

import os
from collections.abc import Callable, Mapping

import mlx.core as mx

from engine.circumstances import power_mode
from engine.conversation.loading import LoadedModel, load
from engine.core.decoder import Decoder
from engine.device import backend
from engine.draft_length import LONGEST, DraftLengthPolicy
from engine.draft_length.calibrations import CalibrationKey
from engine.draft_length.policy import Automatic, Fixed, FixedTree
from engine.drafters import Drafter, NoDrafter
from engine.drafters.block import load_block
from engine.drafters.cascade import Cascade
from engine.drafters.copying import LookupDrafter, SuffixDrafter
from engine.drafters.eagle import load_eagle
from engine.drafters.early_exit import EarlyExitDrafter
from engine.drafters.gemma_assistant import load_gemma_assistant
from engine.drafters.head_network import head_drafter, load_head, other_weights
from engine.drafters.lookahead import LookaheadDrafter
from engine.drafters.medusa import load_medusa
from engine.drafters.model import ModelDrafter, ParallelDrafter
from engine.drafters.mtp import load_mtp
from engine.drafters.other_tokenizer import OtherTokenizerDrafter, Translation
from engine.drafters.reencoding import Writing
from engine.drafters.weights import number_type
from engine.earlier_answers import EarlierAnswers
from models.drafters.folders import PUBLISHED, DrafterFolder
from models.drafters.kinds import DrafterKind
from models.errors import Problem
from models.installed.last_used import mark_used
from models.installed.resolve import Drafters, NamedDrafter, heaviest, lookahead_sizes
from models.limits import LARGEST_TREE
from models.memory.fit import DEFAULT_CONTEXT, fit, require_fit
from models.memory.machine import Machine, this_machine
from models.memory.model_size import weigh
from models.model_folder import ModelFolder
from models.pairing import has_same_tokens, require_same_tokens
from models.records import Fit

_LOADERS: Mapping[DrafterKind, Callable[[DrafterFolder, Decoder], Drafter]] = {
    "eagle-3": load_eagle,
    "eagle": load_eagle,
    "mtp": load_mtp,
    "gemma-4-assistant": load_gemma_assistant,
    "dflash": load_block,
    "dflash2": load_block,
    "dspark": load_block,
    "medusa": load_medusa,
}


def make_drafter(
    drafters: Drafters,
    *,
    target: LoadedModel,
    decoder: Decoder,
    load: Callable[..., LoadedModel] = load,
    earlier: EarlierAnswers | None = None,
) -> Drafter:
    """A drafter that uses those in turn, for a target that `decoder` reads; `earlier` answers are
    drafted from where there are any. Raises `Problem`."""
    made = [_make_one(part, target, decoder, load, earlier) for part in drafters.parts]
    return made[0] if len(made) == 1 else Cascade(*made)


def _make_one(
    part: NamedDrafter,
    target: LoadedModel,
    decoder: Decoder,
    load: Callable[..., LoadedModel],
    earlier: EarlierAnswers | None,
) -> Drafter:
    if part.folder is not None:
        return _load_one(part.folder, target, decoder, load)
    word, _, layers = part.name.partition(":")
    if word == "early-exit":
        half = max(1, len(target.model.layers) // 2)
        return EarlyExitDrafter(decoder, layers=int(layers) if layers else half)
    if word == "lookahead":
        return LookaheadDrafter(*lookahead_sizes(part.name))
    if word == "suffix":
        return SuffixDrafter(earlier)
    return LookupDrafter() if word == "lookup" else NoDrafter()


def _load_one(
    folder: DrafterFolder,
    target: LoadedModel,
    decoder: Decoder,
    load: Callable[..., LoadedModel],
) -> Drafter:
    """A drafter with weights of its own."""
    if folder.kind == "head":
        known = target.folder.fingerprint
        head = load_head(
            folder,
            fingerprint=known,
            vocabulary=decoder.vocabulary,
            like=number_type(decoder.model),
        )
        return head_drafter(decoder, head)
    if folder.description.is_whole_model:
        return _load_model(folder, target, decoder, load)
    demanded = folder.description.demands.fingerprint  # where it was distilled here
    if demanded not in (None, target.folder.fingerprint):
        raise other_weights(folder, target.folder.fingerprint)
    return _LOADERS[folder.kind](folder, decoder)


def _load_model(
    folder: DrafterFolder,
    target: LoadedModel,
    decoder: Decoder,
    load: Callable[..., LoadedModel],
) -> Drafter:
    """A drafter that is a whole model: of the target's tokens, or of others."""
    if folder.kind == "pard":
        require_same_tokens(target.folder, folder.files)
    same = has_same_tokens(target.folder, folder.files)
    mark_used(folder.path)
    loaded = load(folder.files, bits=folder.held_bits)
    model, vocabulary = Decoder(loaded.model), decoder.vocabulary
    if folder.kind == "pard":
        return ParallelDrafter(model, vocabulary=vocabulary, mask=folder.network)
    if same:
        return ModelDrafter(model, vocabulary=vocabulary)
    begin = loaded.tokenizer.encode("", add_special_tokens=True)[:1]
    own = Writing(folder.files, begin=[t for t in begin if t == loaded.tokenizer.bos_token_id])
    translation = Translation(
        Writing(target.folder), own, vocabulary=vocabulary, rows=model.vocabulary
    )
    return OtherTokenizerDrafter(model, translation)


def identify(drafters: Drafters, target: LoadedModel, decoder: Decoder) -> CalibrationKey:
    """The key under which this pair's calibration is stored. Raises `Problem` without its files."""
    quantized, device = decoder.timeline.quantized, backend()
    computing = "GPU" if device.name == "GPU" else f"CPU, {os.cpu_count()} cores"
    if decoder.promise.now.in_parts:
        computing += f", exact {decoder.promise.now.how}"
    return CalibrationKey(
        target=target.folder.fingerprint,
        drafter="+".join(map(_identity, drafters.parts)),
        precision=target.precision,
        caches=f"{quantized.bits}-bit from {quantized.start}" if quantized else "as they are",
        chip=str(mx.device_info()["device_name"]),
        backend=f"{computing}, {decoder.group}" if decoder.group else computing,
        mlx=mx.__version__,  # type: ignore[attr-defined] # its stubs lack it
        matrices=device.matrices,
        threads=device.threads,
        power=power_mode(),
    )


def _identity(part: NamedDrafter) -> str:
    """A drafter in the key: its name, or the fingerprint of its weights and the bits of each."""
    folder = part.folder
    if folder is None:
        return part.name
    return f"{folder.kind} {folder.fingerprint} {folder.held_bits}"


def held_as(drafters: Drafters) -> list[tuple[str, str]]:
    """The name of each drafter with weights, and how they are held here, for people."""
    held = []
    for folder in (part.folder for part in drafters.parts if part.folder is not None):
        words = f"in {folder.held_bits} bits"
        if folder.held_bits == PUBLISHED:
            words = "as published"
        held.append((folder.name, "in float32" if backend().expands else words))
    return held


def make_policy(length: str) -> DraftLengthPolicy:
    """The draft length that the user wrote: `auto`, a number from 0 to 16, or `tree:` with the
    number of a tree's tokens, from 1 to 64. Raises `Problem`."""
    if length == "auto":
        return Automatic()
    if length.isdecimal() and int(length) <= LONGEST:
        return Fixed(int(length))
    shape, _, tokens = length.partition(":")
    if shape == "tree" and tokens.isdecimal() and 1 <= int(tokens) <= LARGEST_TREE:
        return FixedTree(int(tokens))
    raise Problem(
        f"The draft length cannot be {length!r}.",
        f"Choose auto, a number from 0 to {LONGEST}, or a tree of 1 to {LARGEST_TREE} tokens: "
        "tree:8, say.",
    )


def require_pair(
    target: ModelFolder,
    drafters: Drafters,
    *,
    context: int = DEFAULT_CONTEXT,
    cache_bits: int | None = None,
    freed_bytes: int = 0,
    machine: Machine | None = None,
) -> Fit | None:
    """The memory that the pair needs for `context` tokens; raises Problem if there is less.

    Of several drafters the heaviest one counts. `cache_bits`: of quantized caches. `freed_bytes`:
    memory that this process holds now, and frees before loading. None if a folder or a config
    does not say enough: if something is wrong with it, loading reports that.
    """
    here = (machine or this_machine()).once_freed(freed_bytes)
    try:
        size, drafter = weigh(target), heaviest(drafters)
        fit(size, drafter, context=context, machine=here)
    except Problem:
        return None
    return require_fit(size, drafter, context=context, machine=here, cache_bits=cache_bits)
