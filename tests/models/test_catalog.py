"""The catalog is sound and agrees with itself; offers have a reason for every no."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.catalog import (
    LEAVES_ROOM,
    SPARE_DISK_BYTES,
    VERSION,
    Catalog,
    load_catalog,
    offers,
)
from models.drafters.kinds import plain_name
from models.errors import Problem
from models.in_words import size
from models.installed.inventory import is_known, role_of
from models.memory.machine import Machine, mac
from models.memory.shape import read_shape
from models.records import Installed, PairOffer
from models.starter import STARTER

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
MEMORY_CLASSES_GB = (8, 16, 24, 36, 48, 64, 128)  # that pairs are meant for
SHIPPED = Path(__file__).parents[2] / "resources" / "catalog.json"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def a_mac(memory_gb: float) -> Machine:
    return mac("Mac", {"hw.memsize": str(int(memory_gb * (1 << 30)))})


def installed(name: str, *, problem: str = "") -> Installed:
    return Installed(name, "/m", "hub", "chat", 1, None, "qwen3", 4, 1, True, problem)


def recommended(found: list[PairOffer]) -> PairOffer:
    (offer,) = [offer for offer in found if offer.recommended]
    return offer


# What stands in resources/catalog.json


def flaws(catalog: Catalog) -> Iterator[str]:
    """What a catalog that ships must not have, beyond what its reader refuses."""
    for name, model in catalog.models.items():
        if name != STARTER.name and _NAME.fullmatch(name) is None:
            yield f"the name of a model: {name}"
        for text in (model.family, model.licence, model.source):
            if not 0 < len(text) <= 200 or not text.isprintable():
                yield f"a text of {name}: {text!r}"
        try:
            read_shape(model.config)
        except Problem as problem:
            yield f"config of {name}: {problem.message}"
    for pair in catalog.pairs:
        where = f"pair {pair.target.name}"
        if pair.drafter is pair.target:
            yield f"{where}: its drafter"
        if pair.memory_class_gb not in MEMORY_CLASSES_GB:
            yield f"{where}: memory_class_gb"
        if not 0 < pair.quality <= 1000:
            yield f"{where}: quality"
        if not 0 < len(pair.good_for) <= 200 or not pair.good_for.isprintable():
            yield f"{where}: good_for"
        kinds = pair.drafter_kinds
        if len(set(kinds)) < len(kinds) or ("model" in kinds) != (pair.drafter is not None):
            yield f"{where}: drafter_kinds"
    for drafter in catalog.drafters:
        if any(target != plain_name(target) for target in drafter.targets) or not drafter.targets:
            yield f"{drafter.name}: targets"
        if drafter.kind in ("head", "model") or not re.fullmatch(r"[\w./-]{3,100}", drafter.name):
            yield f"{drafter.name}: kind or name"
        if drafter.reason and not drafter.reason.endswith("."):
            yield f"{drafter.name}: reason"
    if len({drafter.name for drafter in catalog.drafters}) < len(catalog.drafters):
        yield "a drafter that is listed twice"
    names = [tuple(model.name for model in pair.models) for pair in catalog.pairs]
    if len(set(names)) < len(names):
        yield "a pair that is listed twice"


def test_drafters_that_others_trained(catalog: Catalog, subtests: pytest.Subtests):
    for name, kinds in [
        ("mlx-community/Qwen3-8B-4bit", {"eagle-3", "p-eagle", "dflash", "dspark", "pard"}),
        ("mlx-community/Qwen3-4B-Instruct-2507-8bit", {"eagle-3", "dflash", "dspark", "pard"}),
        ("mlx-community/Qwen3.5-4B-MLX-4bit", {"dflash", "mtp"}),
        ("mlx-community/Qwen3.5-35B-A3B-4bit", {"dflash", "mtp"}),
        ("mlx-community/Qwen3.8-27B-4bit", {"dflash2", "dspark", "mtp"}),
        ("mlx-community/gemma-4-31b-it-4bit", {"dflash", "eagle-3", "gemma-4-assistant"}),
        ("mlx-community/gpt-oss-20b-MXFP4-Q8", {"dflash", "eagle-3"}),
        ("mlx-community/Meta-Llama-3.1-8B-Instruct-4bit", {"eagle-3", "pard"}),
        ("mlx-community/gemma-3-4b-it-qat-4bit", set()),
        ("smollm2-135m-instruct", set()),
    ]:
        with subtests.test(name=name):
            assert {drafter.kind for drafter in catalog.drafters_for(name)} == kinds


def test_an_offer_names_what_others_trained(catalog: Catalog):
    offered = {offer.target: offer.drafter_kinds for offer in offers(catalog, machine=a_mac(16))}
    assert "mtp" in offered["mlx-community/Qwen3.5-9B-MLX-4bit"]
    assert "pard" in offered["mlx-community/Meta-Llama-3.1-8B-Instruct-4bit"]
    assert "eagle-3" not in offered["mlx-community/Meta-Llama-3.1-8B-Instruct-4bit"]  # pickled


def test_it_has_no_flaws(catalog: Catalog):
    assert list(flaws(catalog)) == []


def test_all_families_and_memory_classes_are_there(catalog: Catalog):
    assert len(catalog.pairs) >= 15
    families = {pair.target.family for pair in catalog.pairs}
    wanted = {"Qwen3", "Qwen3.5", "Llama 3", "Gemma 3", "SmolLM2", "SmolLM3", "Mistral"}
    assert families >= wanted | {"gpt-oss", "LFM2"}
    assert {pair.memory_class_gb for pair in catalog.pairs} == set(MEMORY_CLASSES_GB)
    assert sum(pair.drafter is not None for pair in catalog.pairs) >= 15


def test_every_model_is_one_that_mlx_lm_knows_and_is_used(catalog: Catalog):
    used = {model.name for pair in catalog.pairs for model in pair.models}
    assert used == catalog.models.keys()
    for model in catalog.models.values():
        assert is_known(model.config), model.name
        assert role_of(model.config) == "chat", model.name
        assert model.name == STARTER.name or model.name.startswith("mlx-community/")


def test_sizes_agree_with_configs(catalog: Catalog):
    for model in catalog.models.values():
        assert model.parameters is not None
        bits = 8 * model.weights_bytes / model.parameters.total
        if "8bit" in model.name:
            assert 8.4 < bits < 9, model.name
        else:  # what sees pictures is in 16 bits, and the smaller the model, the more that is
            most = 4.7 if model.name.count("gpt-oss") or not _sees(model.config) else 7.6
            assert 4.2 < bits < most, model.name


def _sees(config: Any) -> bool:
    nested = "text_config" in config
    return nested or config["model_type"] in ("gemma3_text",) or config["hidden_size"] == 576


def test_drafters_are_much_cheaper_than_their_targets(catalog: Catalog):
    for pair in catalog.pairs:
        if pair.drafter is not None:
            assert pair.drafter.parameters is not None
            assert pair.target.parameters is not None
            ratio = pair.drafter.parameters.active / pair.target.parameters.active
            assert ratio < 0.4, pair.target.name
            assert pair.drafter.family == pair.target.family


def test_what_is_not_verified_says_what_is_known_of_it(catalog: Catalog):
    for model in catalog.models.values():
        assert "size from the config" not in model.source or not model.verified
        assert "checked" in model.source or "named" in model.source or model.name == STARTER.name


# Offers


def test_one_is_recommended_and_every_no_has_a_reason(catalog: Catalog, subtests: pytest.Subtests):
    quality = {pair.target.name: pair.quality for pair in catalog.pairs}
    qualities = []
    for memory_gb in MEMORY_CLASSES_GB:
        with subtests.test(memory_gb=memory_gb):
            machine = a_mac(memory_gb)
            found = offers(catalog, machine=machine)
            assert len(found) == len(catalog.pairs)
            best = recommended(found)
            assert found[0] is best
            assert best.reason == ""
            assert best.drafter  # though without one, larger targets would do
            assert best.needed_bytes <= LEAVES_ROOM * machine.available_bytes
            for offer in found:
                assert bool(offer.reason) == (offer.needed_bytes > machine.available_bytes)
                if offer.reason:
                    assert f"{size(machine.available_bytes)} are available" in offer.reason
            chosen = [not offer.reason for offer in found[1:]]
            assert chosen == sorted(chosen, reverse=True)
            qualities.append(quality[best.target])
    assert qualities == sorted(qualities)  # more memory never recommends less
    assert len(set(qualities)) >= 6


def test_what_fits_without_room_to_spare_is_not_recommended(catalog: Catalog):
    best = recommended(offers(catalog, machine=a_mac(16)))
    tight = Machine("m", 16 << 30, best.needed_bytes + 1, unified=True)
    found = offers(catalog, machine=tight)
    assert next(offer for offer in found if offer.target == best.target).reason == ""
    assert recommended(found).target != best.target


def test_more_than_a_machine_is_meant_for_is_not_recommended(catalog: Catalog):
    raised = Machine("m", 16 << 30, 16 << 30, unified=True)  # a limit that somebody raised
    found = offers(catalog, machine=raised)
    larger = [offer for offer in found if offer.memory_class_gb > 16 and not offer.reason]
    assert larger
    for offer in larger:
        assert f"{offer.memory_class_gb} GB" in offer.caution
        assert f"{offer.largest_context:,} tokens" in offer.caution
    assert {offer.caution for offer in found if offer.memory_class_gb <= 16} == {""}
    assert recommended(found).memory_class_gb <= 16


def test_memory_is_computed_at_one_context(catalog: Catalog):
    found = offers(catalog, machine=a_mac(128), context=2048)
    assert {offer.needed_context for offer in found} == {2048}
    assert not any(offer.expanded for offer in found)
    processor = Machine("m", 32 << 30, 24_000_000_000, unified=False)
    expanded = {offer.target: offer.expanded for offer in offers(catalog, machine=processor)}
    assert set(expanded.values()) == {True, False}  # small ones as float32, large ones as they are


def test_a_pair_is_as_verified_as_the_less_known_of_the_two(catalog: Catalog):
    pair = next(pair for pair in catalog.pairs if pair.drafter and pair.target.verified)
    assert pair.drafter
    doubtful = replace(pair, drafter=replace(pair.drafter, verified=False))
    pairs = tuple(doubtful if each is pair else each for each in catalog.pairs)
    found = offers(replace(catalog, pairs=pairs), machine=a_mac(16))
    assert not next(offer for offer in found if offer.target == pair.target.name).verified


def test_the_starter_is_recommended_where_nothing_fits(catalog: Catalog):
    nothing = Machine("m", 4 << 30, 50_000_000, unified=True)
    best = recommended(offers(catalog, machine=nothing))
    assert best.target == STARTER.name
    assert best.reason


def test_a_processor_is_recommended_what_it_can_expand(catalog: Catalog):
    processor = Machine("m", 32 << 30, 24_000_000_000, unified=False)
    best = recommended(offers(catalog, machine=processor))
    model = catalog.models[best.target]
    assert model.parameters is not None
    assert 4 * model.parameters.total < processor.available_bytes / 2
    assert best.target != STARTER.name


def test_the_recommendation_does_not_follow_the_free_memory_of_the_moment(catalog: Catalog):
    moments = [
        offers(catalog, machine=Machine("m", 32 << 30, free * 10**9, unified=False))
        for free in (2, 8, 16, 24)
    ]
    assert len({recommended(found).target for found in moments}) == 1
    assert recommended(moments[0]).reason, "it says that there is no room now"
    assert not recommended(moments[-1]).reason


def test_pairs_for_more_memory_come_behind_those_for_this_machine(catalog: Catalog):
    found = offers(catalog, machine=Machine("m", 24 << 30, 22 * 10**9, unified=False))
    rest = [offer for offer in found if not offer.reason and not offer.recommended]
    assert {bool(offer.caution) for offer in rest} == {False, True}
    assert rest == sorted(rest, key=lambda offer: bool(offer.caution))


def test_what_is_here_is_not_downloaded_again(catalog: Catalog):
    target, drafter = "mlx-community/Qwen3-8B-4bit", "mlx-community/Qwen3-0.6B-4bit"

    def offer(*here: Installed) -> PairOffer:
        found = offers(catalog, machine=a_mac(16), installed=here)
        return next(offer for offer in found if offer.target == target)

    sizes = {name: catalog.models[name].download_bytes for name in (target, drafter)}
    assert offer().download_bytes == sizes[target] + sizes[drafter]
    assert offer(installed(drafter)).download_bytes == sizes[target]
    assert not offer(installed(drafter)).installed
    assert offer(installed(drafter), installed(target)).download_bytes == 0
    assert offer(installed(drafter), installed(target)).installed
    assert not offer(installed(drafter), installed(target, problem="damaged")).installed


def test_a_full_disk_is_a_reason_for_what_is_not_here_yet(catalog: Catalog):
    target, drafter = "mlx-community/Qwen3-8B-4bit", "mlx-community/Qwen3-0.6B-4bit"
    here = [installed(target), installed(drafter)]
    found = offers(catalog, machine=a_mac(16), installed=here, free_bytes=SPARE_DISK_BYTES - 1)
    reasons = {offer.target: offer.reason for offer in found}
    assert reasons[target] == ""
    assert "of disk" in reasons["mlx-community/Qwen3.5-4B-MLX-4bit"]
    assert recommended(found).target == target
    plenty = offers(catalog, machine=a_mac(16), free_bytes=10**12)
    assert plenty == offers(catalog, machine=a_mac(16))


def test_a_longer_context_needs_more(catalog: Catalog):
    def needed(context: int) -> int:
        found = offers(catalog, machine=a_mac(64), context=context)
        return next(o.needed_bytes for o in found if o.target.endswith("Qwen3-8B-4bit"))

    assert needed(4096) < needed(32_768) < needed(40_960)
    assert needed(40_960) == needed(10**6)  # its own context is the longest


def test_what_does_not_fit_alone_may_fit_on_several(catalog: Catalog):
    here = a_mac(16)
    alone = {offer.target: offer for offer in offers(catalog, machine=here)}
    found = offers(catalog, machine=here, macs=[here, a_mac(36)])
    assert recommended(found) == recommended(list(alone.values()))
    shared = [offer for offer in found if offer.macs > 1]
    assert shared
    for offer in shared:
        assert alone[offer.target].reason
        assert offer.reason == ""
        assert offer.macs == 2
        assert here.available_bytes < offer.needed_bytes <= offer.available_bytes
        assert offer.available_bytes == here.available_bytes + a_mac(36).available_bytes
    assert all(offer == alone[offer.target] for offer in found if offer.macs == 1)
    full = offers(catalog, machine=here, macs=[here, a_mac(36)], free_bytes=0)
    assert all("of disk" in offer.reason for offer in full if offer.macs > 1)


# A catalog from elsewhere


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    document = json.loads(SHIPPED.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


def test_a_newer_version_says_what_to_do(tmp_path: Path):
    for version, shown in ((VERSION + 1, "version 2, newer"), (10**400, "version 1000000000, ")):
        newer = changed(tmp_path / "c.json", lambda c, v=version: c.update(version=v))
        with pytest.raises(Problem, match=shown) as problem:
            load_catalog(newer)
        assert "Update" in problem.value.remedy


def _model(field: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda c: c["models"]["mlx-community/Qwen3-8B-4bit"].update({field: value})


def _pair(field: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda c: c["pairs"][1].update({field: value})


def test_what_cannot_be_read_is_refused(tmp_path: Path, subtests: pytest.Subtests):
    for change, named in [
        (lambda c: c.update(version=0), "version"),
        (lambda c: c.update(version=True), "version"),
        (lambda c: c.pop("version"), "version"),
        (lambda c: c.update(more=1), "catalog has no field"),
        (lambda c: c.update(models=[]), "catalog.models"),
        (lambda c: c.update(pairs={}), "catalog.pairs"),
        (lambda c: c["models"].update({"a/b": 3}), "catalog.models"),
        (_model("weights_bytes", 0), "the size of"),
        (_model("weights_bytes", 4.5e9), "weights_bytes"),
        (_model("weights_bytes", 10**14), "the size of"),
        (_model("download_bytes", 0), "the size of"),
        (_model("context", True), "context"),
        (_model("verified", 1), "verified"),
        (_model("config", []), "config"),
        (_model("more", 1), "has no field"),
        (_pair("target", "mlx-community/Unheard-of"), "Unheard-of"),
        (_pair("target", ""), "not usable"),
        (_pair("drafter", None), "drafter"),
        (_pair("memory_class_gb", 8.0), "memory_class_gb"),
        (_pair("memory_class_gb", [8]), "memory_class_gb"),
        (_pair("memory_class_gb", 10**400), "memory_class_gb"),
        (_pair("good_for", None), "good_for"),
        (_pair("drafter_kinds", ["model", "magic"]), "drafter_kinds"),
        (_pair("drafter_kinds", [["model"]]), "drafter_kinds"),
        (_pair("drafter_kinds", "model"), "drafter_kinds"),
        (_pair("more", 1), "pairs"),
        (lambda c: c["pairs"].append(3), "pairs"),
        (lambda c: c["pairs"].pop(0), "starter"),
    ]:
        with subtests.test(named=named):
            with pytest.raises(Problem, match=named) as problem:
                load_catalog(changed(tmp_path / "c.json", change))
            assert problem.value.remedy
            assert problem.value.message.isprintable()
            assert len(problem.value.message) < 500


def test_every_flaw_is_found(tmp_path: Path, subtests: pytest.Subtests):
    for change, named in [
        (lambda c: c["models"].update({"../x": c["models"][STARTER.name]}), "name of a model"),
        (_model("family", ""), "a text of"),
        (_model("licence", "\x1b[31m"), "a text of"),
        (_model("source", "x" * 201), "a text of"),
        (_model("config", {"model_type": "qwen3"}), "config"),
        (_model("config", {"model_type": 3}), "config"),
        (_pair("drafter", "mlx-community/SmolLM2-1.7B-Instruct-4bit"), "its drafter"),
        (_pair("memory_class_gb", 17), "memory_class_gb"),
        (_pair("quality", 0), "quality"),
        (_pair("drafter_kinds", ["lookup"]), "drafter_kinds"),
        (_pair("drafter_kinds", ["model", "model"]), "drafter_kinds"),
        (lambda c: c["pairs"].append(c["pairs"][0]), "twice"),
    ]:
        with subtests.test(named=named):
            found = list(flaws(load_catalog(changed(tmp_path / "c.json", change))))
            assert any(named in flaw for flaw in found)


def test_no_catalog_at_all(tmp_path: Path):
    with pytest.raises(Problem, match="cannot be read"):
        load_catalog(tmp_path / "none.json")
