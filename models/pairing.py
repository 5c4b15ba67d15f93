"""The drafters for a target: every way and every installed model, each with a reason.

Four things decide about a model: its tokens must be the target's, or spell what the target's do
(`models.token_tables`), the engine must be able to roll its caches back, both must fit in memory,
and it must cost less than it saves. Predicts from files alone; what a pair gains is measured when
it runs. Loads no weights.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from models import in_words
from models.catalog import Catalog, CatalogModel
from models.drafters.folders import DrafterFolder, find_head, own_module
from models.drafters.kinds import DrafterDescription, check, verifier_note
from models.drafters.mtp import had_module
from models.errors import Problem
from models.installed.inventory import ModelEntry, is_known
from models.installed.resolve import published_name
from models.memory.fit import DEFAULT_CONTEXT, fit
from models.memory.machine import Machine
from models.memory.model_size import ModelSize, weigh
from models.memory.parameters import count_parameters, has_experts
from models.memory.shape import read_shape
from models.model_folder import ModelFolder
from models.records import Candidate, Fit, Obstacle
from models.speed import expect, load_chips
from models.token_tables import TokenDifference, compare, same_file, shared_parts

RARELY_PAYS = 0.5  # of a pass per drafted token: then most of them must be accepted
NEVER_PAYS = 1.0  # even if every drafted token is accepted
LEAST_SHARED = 0.1  # of the tokens of one side: with fewer there is next to nothing to draft
_BEST_RATIO = 0.05  # much smaller models lose more acceptance than they save

# Architectures whose caches mlx-lm makes of parts that the engine cannot cut: it copies them whole
# before each round (`engine.core.cache`).
COPIED_CACHES = frozenset(
    ("baichuan_m1", "deepseek_v32", "deepseek_v41", "falcon_h1", "glm_moe_dsa", "llama4",
     "longcat_flash", "longcat_flash_ngram", "minimax_m3_vl")
)  # fmt: skip


def candidates(
    target: ModelFolder,
    *,
    installed: Sequence[ModelEntry],
    machine: Machine,
    catalog: Catalog | None = None,
    context: int = DEFAULT_CONTEXT,
    home: Path | None = None,
) -> list[Candidate]:
    """Return every way of drafting for `target`, best first; unusable ones come last.

    `installed` includes the target; models of its family in the catalog that are not installed are
    listed too. Reading the token tables takes up to a second per model. Raises Problem if the
    target itself cannot be read.
    """
    names = Counter(entry.record.name for entry in installed)
    name = next(
        (entry.record.name for entry in installed if _same(entry.folder, target)), target.name
    )
    judge = _Judge(target, machine, name=name, context=context)
    head = find_head(target.fingerprint, home=home)
    found = [*judge.by_the_text(), judge.none(), judge.early_exit(), judge.head(head)]
    found += judge.own_module()
    for entry in installed:
        if head is None or not _same(entry.folder, head):
            model = entry.record
            found.append(judge.model(entry, model.name if names[model.name] == 1 else model.path))
    if catalog is not None:
        here = {*names, *map(published_name, installed)}
        listed = published(catalog, name, judge.size, machine=machine, context=context)
        found += [candidate for candidate in listed if candidate.drafter not in here]
    return sorted(found, key=_rank)


def published(
    catalog: Catalog,
    name: str,
    target: ModelSize,
    *,
    machine: Machine,
    context: int = DEFAULT_CONTEXT,
) -> list[Candidate]:
    """Return the drafters of others for the target called `name`, none of them installed, with the
    gain that is expected of each on this machine. Unusable ones come last.

    The target need not be installed either. A target that the catalog does not list gets the
    smaller models of its family, found by its architecture. Raises Problem if its config is
    malformed.
    """
    asked = min(max(context, 1), target.shape.context_length or context)
    known = catalog.find(name) or catalog.relative(name) or catalog.like(target)
    if known is None:
        return []
    listed = catalog.drafters_for(name)
    if not listed:
        family = catalog.drafters_for(known.name)
        listed = [each for each in family if each.kind == "model"]
    chip = load_chips().chip_of(machine)
    found = []
    for drafter in listed:
        if drafter.name == name or not _is_smaller(catalog.models.get(drafter.name), target):
            continue
        size = catalog.size_of(drafter, known)
        needed = fit(target, size, context=asked, machine=machine)
        expected = expect(known.reads, drafter.drafts_for(known), chip=chip)
        get = f"slipstream models pull {drafter.name}"
        taken = f", {in_words.size(drafter.size_bytes)}" if drafter.size_bytes else ""
        obstacle: Obstacle = "not installed"
        reason = f"It is not downloaded{taken}: {get}"
        if drafter.reason:
            reason, obstacle = drafter.reason, "unsupported"
        elif not needed.fits:
            reason, obstacle = needed.reason, "no room"
        found.append(
            Candidate(
                drafter.name,
                drafter.kind,
                False,
                reason,
                cost_ratio=_model_ratio(catalog.models.get(drafter.name), known),
                installed=False,
                size_bytes=drafter.size_bytes,
                obstacle=obstacle,
                licence=drafter.licence,
                tried=drafter.kind == "model",
                gain=expected.gain if expected else None,
            )
        )
    return sorted(found, key=_rank)


def require_same_tokens(target: ModelFolder, drafter: ModelFolder) -> None:
    """Raise Problem, naming the first difference, unless `drafter` has the tokens of `target`."""
    difference = _difference(target, drafter)
    if difference is not None:
        raise Problem(
            f"{drafter.name} cannot draft for {target.name}: "
            f"{difference.between(target.name, drafter.name)}.",
            "Choose a drafter of the same model family, or draft without a model.",
        )


def has_same_tokens(target: ModelFolder, drafter: ModelFolder) -> bool:
    """Whether `drafter` has exactly the tokens of `target`. Raises Problem, naming the first
    difference, if they share too few tokens to draft at all."""
    difference = _difference(target, drafter)
    if difference is not None and max(shared_parts(target.tokens, drafter.tokens)) < LEAST_SHARED:
        require_same_tokens(target, drafter)
    return difference is None


def rollback_note(config: Mapping[str, Any]) -> str:
    """Return the costs of rolling back with this drafting model, in words; empty if it is free.

    Keys and values are cut, whole or in a window. A recurrent state returns to a mark, and accepted
    tokens are read again from there. Any other cache is copied before each round.
    """
    if config.get("model_type") in COPIED_CACHES:
        return "its caches are copied for each round, which costs more as a text grows"
    if any(layer.kind == "recurrent" for layer in read_shape(config).layers):
        return "its recurrent layers read a round again after a rejected draft"
    return ""


class _Judge:
    """A target on a machine, for which drafters are judged. Attribute: `size`."""

    def __init__(self, target: ModelFolder, machine: Machine, *, name: str, context: int) -> None:
        self._target, self._machine, self._name = target, machine, name
        self.size = weigh(target)
        self._shape = read_shape(self.size.config)
        self._context = min(max(context, 1), self._shape.context_length or context)

    def by_the_text(self) -> list[Candidate]:
        """Return the ways that need no model, and only rows of the target's passes."""
        reasons = {
            "suffix": "Copies what most often followed the same words, in earlier answers too once "
            "that is switched on: needs no model, and costs next to nothing.",
            "lookup": "Copies what followed the same words before: needs no model, and costs next "
            "to nothing.",
            "lookahead": "The target guesses ahead of its own text: needs no model, but many rows "
            "in every pass.",
        }
        return [Candidate(name, name, True, reason, 0.0) for name, reason in reasons.items()]

    def none(self) -> Candidate:
        return Candidate("none", "none", True, "Plain decoding, to compare with.")

    def early_exit(self) -> Candidate:
        layers = len(self._shape.layers)
        if layers < 2:
            return Candidate(
                "early-exit",
                "early-exit",
                False,
                "The target has a single layer.",
                obstacle="unsupported",
            )
        parameters = count_parameters(self.size.config)
        ratio = parameters.exit_share(layers // 2 / layers) if parameters else None
        reason = _sentence(f"It is the first {layers // 2} of the target's layers", _cost(ratio))
        return Candidate("early-exit", "early-exit", True, reason, ratio)

    def head(self, folder: DrafterFolder | None) -> Candidate:
        """Judge the head that was trained for exactly these weights; None if there is none."""
        if folder is None:
            reason = "No head was trained for these weights yet: slipstream distil makes one."
            return Candidate("head", "head", False, reason, installed=False, obstacle="not trained")
        size = weigh(folder)
        needed = self._fit(size)
        found = Candidate("head", "head", False, "", size_bytes=size.size_bytes)
        ratio = self._ratio(needed, None)
        return _weighed(found, needed, ratio, "It was trained for these weights", _cost(ratio))

    def model(self, entry: ModelEntry, drafter: str) -> Candidate:
        """Judge an installed model, or a head of another target."""
        model = entry.record
        kind = "head" if model.role == "head" else model.drafter_kind or "model"
        refused = Candidate(
            drafter, kind, False, model.problem, size_bytes=model.size_bytes, obstacle="damaged"
        )
        try:
            if model.problem:
                return refused
            if isinstance(entry.folder, DrafterFolder):
                return self._network(refused, entry.folder)
            return self._judged(refused, entry.folder)
        except Problem as problem:
            return replace(refused, reason=problem.message)

    def _judged(self, refused: Candidate, folder: ModelFolder) -> Candidate:
        config = folder.config
        if not is_known(config):
            kind = ascii(config.get("model_type"))[:60]
            reason = f"mlx-lm does not know its architecture, {kind}."
            return replace(refused, reason=reason, obstacle="unsupported")
        shared, tokens = 1.0, "It has the target's tokens"
        if (difference := _difference(self._target, folder)) is not None:
            parts = shared_parts(self._target.tokens, folder.tokens)
            if refused.kind != "model" or max(parts) < LEAST_SHARED:
                there = difference.between("the target", "this model")
                reason = f"It has other tokens: {there}."
                return replace(refused, reason=reason, obstacle="other tokens")
            shared = parts[1]
            tokens = f"It has another tokenizer: {shared:.0%} of its tokens are shared, expect less"
        needed = self._fit(weigh(DrafterFolder.of_model(folder)))
        ratio = self._ratio(needed, config)
        found = _weighed(refused, needed, ratio, tokens, _cost(ratio), rollback_note(config))
        return replace(found, shared_tokens=shared) if found.works else found

    def own_module(self) -> list[Candidate]:
        """Judge the MTP module that came with the target; empty if the target never had one."""
        try:
            module = own_module(self._target)
        except Problem as problem:
            return [Candidate("mtp", "mtp", False, problem.message, obstacle="damaged")]
        if module is not None:
            size = sum(each.size_bytes for each in module.layouts.values())
            found = Candidate("mtp", "mtp", False, "", size_bytes=size, tried=False)
            return [self._network(found, module)]
        if not had_module(self.size.config):
            return []
        reason = (
            "The model was published with an MTP module, which its conversion has left out; some "
            "can be fetched by themselves."
        )
        return [Candidate("mtp", "mtp", False, reason, obstacle="unsupported")]

    def _network(self, refused: Candidate, folder: DrafterFolder) -> Candidate:
        """Judge a drafter that reads the target's states, or drafts in a block."""
        drafter = folder.description
        if drafter.is_whole_model:
            return self._judged(refused, folder.files)
        reason = check(drafter, self._target.config, fingerprint=self._target.fingerprint)
        if reason:
            return replace(refused, reason=reason, obstacle="other target")
        needed = self._fit(weigh(folder))
        ratio, note = self._ratio_of(needed, drafter), verifier_note(drafter, self._name)
        return _weighed(refused, needed, ratio, "Its sizes fit the target", note, _cost(ratio))

    def _fit(self, drafter: ModelSize) -> Fit:
        return fit(self.size, drafter, context=self._context, machine=self._machine)

    def _ratio_of(self, needed: Fit, drafter: DrafterDescription) -> float | None:
        """Return the cost ratio of a network, with the rows of the target's output layer that it
        borrows."""
        ratio, ours = self._ratio(needed, None), count_parameters(self.size.config)
        if ratio is None:
            return None
        if not drafter.own_head and ours is not None:
            ratio += ours.embedding / ours.active
        return ratio / max(drafter.predictions, 1)

    def _ratio(self, needed: Fit, config: Mapping[str, Any] | None) -> float | None:
        """Return the weight bytes read for a drafted token over the bytes of a pass of the target;
        None if not known. `config` None: a network, which reads all of its own."""
        ours = _active_share(self.size.config)
        theirs = 1.0 if config is None else _active_share(config)
        if ours is None or theirs is None or not needed.weights_bytes:
            return None
        return needed.drafter_weights_bytes * theirs / (needed.weights_bytes * ours)


def _weighed(found: Candidate, needed: Fit, ratio: float | None, *why: str) -> Candidate:
    """Return a drafter that suits the target: it works, for these reasons, if there is room."""
    if not needed.fits:
        return replace(found, reason=needed.reason, cost_ratio=ratio, obstacle="no room")
    return replace(found, works=True, reason=_sentence(*why), cost_ratio=ratio, obstacle="")


def _difference(target: ModelFolder, drafter: ModelFolder) -> TokenDifference | None:
    """Return the first token that differs; None if none does. Identical files are not parsed."""
    if same_file(target.path, drafter.path):
        return None
    return compare(target.tokens, drafter.tokens)


def _active_share(config: Mapping[str, Any]) -> float | None:
    """Return the part of the weights that one token needs; None if experts cannot be counted."""
    parameters = count_parameters(config)
    if parameters is not None:
        return parameters.active_share
    return None if has_experts(config) else 1.0


def _cost(ratio: float | None) -> str:
    """Return a sentence on the cost of a drafted token, and whether it can pay."""
    if ratio is None:
        return ""
    if ratio >= NEVER_PAYS:
        return "a drafted token costs no less than the target's own token, so it never pays"
    cost = f"a drafted token costs {max(ratio, 0.001):.1%} of a pass of the target"
    return f"{cost}, so it rarely pays" if ratio >= RARELY_PAYS else cost


def _sentence(*parts: str) -> str:
    return "; ".join(part for part in parts if part) + "."


def _is_smaller(model: CatalogModel | None, target: ModelSize) -> bool:
    """Whether a token of `model` reads less than one of the target. True for None, which is a
    network."""
    if model is None:
        return True
    theirs, ours = model.parameters, count_parameters(target.config)
    if theirs is None or ours is None:
        return model.weights_bytes < target.size_bytes
    return theirs.active < ours.active


def _model_ratio(model: CatalogModel | None, target: CatalogModel) -> float | None:
    """Return the bytes that a token of `model` reads over the target's; None for a
    network."""
    return None if model is None else model.reads.read_bytes / target.reads.read_bytes


def _rank(candidate: Candidate) -> tuple[int, float]:
    """Return a key that sorts the best first: by kind, then by how near a model is to the best
    size."""
    ratio = candidate.cost_ratio
    distance = abs(math.log(ratio / _BEST_RATIO)) if ratio else 0.0
    if candidate.gain is not None and not candidate.works and candidate.obstacle == "not installed":
        return 7, -candidate.gain
    if not candidate.works:
        later = candidate.obstacle == "unsupported" and 8
        return (9 if candidate.installed or candidate.kind == "head" else later or 7), distance
    if candidate.kind == "model":
        group = 2 if ratio is None or ratio < RARELY_PAYS else 5 if ratio < NEVER_PAYS else 8
        other = candidate.shared_tokens < 1.0 and group == 2
        return (3, 2.0 + distance) if other else (group, distance)  # after drafters that copy
    groups = {"suffix": 3, "lookup": 3, "lookahead": 3, "early-exit": 4, "none": 6}
    return groups.get(candidate.kind, 1), 0.0 if candidate.kind == "head" else 1.0 + distance


def _same(one: ModelFolder | DrafterFolder, other: ModelFolder | DrafterFolder) -> bool:
    try:
        return one.path.resolve() == other.path.resolve()
    except (OSError, RuntimeError, ValueError):
        return False
