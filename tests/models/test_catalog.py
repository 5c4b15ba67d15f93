"""The catalog is sound and agrees with itself; offers have a reason for every no, and speeds."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from engine.draft_length.costs import DraftCosts
from engine.draft_length.options import chains
from models.catalog import (
    AS_FAST_AS_READING,
    AT_EASE,
    LEAVES_ROOM,
    SPARE_DISK_BYTES,
    VERSION,
    load_catalog,
    offers,
)
from models.drafters.kinds import plain_name
from models.errors import Problem
from models.in_words import size
from models.installed.inventory import role_of
from models.memory.machine import OWN_BYTES, Machine, mac
from models.memory.shape import read_shape
from models.records import Installed
from models.speed import Drafts, Measured, RowCurve, load_chips, longest_that_gains
from models.starter import STARTER

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
QWEN_8B, ITS_DRAFTER = "mlx-community/Qwen3-8B-4bit", "mlx-community/Qwen3-0.6B-4bit"
QWEN_9B = "mlx-community/Qwen3.5-9B-MLX-4bit"
QWEN_27B = "mlx-community/Qwen3.8-27B-8bit"
LLAMA = "mlx-community/Meta-Llama-3.1-8B-Instruct-4bit"
FEW = (
    ITS_DRAFTER, "mlx-community/LFM2-2.6B-4bit", "mlx-community/Qwen3.5-4B-MLX-4bit", QWEN_8B,
    QWEN_9B, LLAMA, "mlx-community/Qwen3.5-9B-8bit", QWEN_27B,
    "mlx-community/gemma-4-26b-a4b-it-4bit", "mlx-community/Llama-3.3-70B-Instruct-4bit",
)  # fmt: skip
SHIPPED = Path(__file__).parents[2] / "resources" / "catalog.json"


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


@pytest.fixture(scope="module")
def few(catalog):
    """Some of its models, so that they are judged in a moment."""
    kept = {name: catalog.models[name] for name in (STARTER.name, *FEW)}
    return replace(catalog, models=kept)


def a_mac(memory_gb, chip="M4 Pro"):
    return mac(f"Apple {chip}", {"hw.memsize": str(int(memory_gb * (1 << 30)))})


def installed(name, *, problem=""):
    return Installed(name, "/m", "hub", "chat", 1, None, "qwen3", 4, 1, True, problem)


def recommended(found):
    (offer,) = [offer for offer in found if offer.recommended]
    return offer


# What stands in resources/catalog.json

BITS_OF_A_WEIGHT = {2: (2.1, 2.7), 4: (4.2, 5.0), 6: (6.4, 6.6), 8: (8.4, 9.0), 16: (15.9, 16.6)}


def _sees(config):
    """Whether a part is in 16 bits: the more of it, the smaller the model."""
    kinds = ("gemma3_text", "gemma4", "muse_glimmer", "gpt_oss")
    return "text_config" in config or config["model_type"] in kinds or config["hidden_size"] == 576


def test_each_model_is_sound(catalog):
    """Beyond what the reader of a catalog refuses."""
    drafters = {drafter.name for drafter in catalog.drafters}
    for name, model in catalog.models.items():
        assert name == STARTER.name or _NAME.fullmatch(name), name
        for text in (model.family, model.source, model.good_for or "-", model.licence or "-"):
            assert 0 < len(text) <= 200, name
            assert text.isprintable(), name
        assert 0 <= model.quality <= 100, name
        assert bool(model.quality) == bool(model.good_for), name
        assert model.quality or name in drafters, name
        assert role_of(model.config) == "chat", name
        assert re.search("checked|named|starter", model.source), name
        assert re.fullmatch(r"20\d\d-[01]\d", model.seen), name
        if model.has_shape:
            read_shape(model.config)
        if model.parameters and not model.active_share:
            least, most = BITS_OF_A_WEIGHT[model.bits]
            most *= 1.7 if _sees(model.config) else 1
            assert least < 8 * model.weights_bytes / model.parameters.total < most, name


def test_each_drafter_is_sound(catalog):
    assert len({drafter.name for drafter in catalog.drafters}) == len(catalog.drafters)
    for drafter in catalog.drafters:
        name, is_model = drafter.name, drafter.kind == "model"
        assert drafter.targets, name
        assert all(target == plain_name(target) for target in drafter.targets), name
        suited = [target for target in catalog.targets if drafter.suits(target.name)]
        assert suited, name
        assert drafter.kind != "head", name
        assert is_model == (name in catalog.models), name
        assert re.fullmatch(r"[\w./-]{3,100}", name), name
        assert drafter.source, name
        assert re.fullmatch(r"20\d\d-[01]\d", drafter.seen), name
        assert not drafter.reason or drafter.reason.endswith("."), name
        for target in suited if is_model else ():
            read_bytes = catalog.models[name].reads.read_bytes
            assert read_bytes < 0.5 * target.reads.read_bytes, (name, target.name)


# Offers


MACS = (("M1", 8), ("M4", 24), ("M2 Pro", 32), ("M4 Pro", 48), ("M5 Max", 128))


@pytest.fixture(scope="module")
def everywhere(catalog):
    """What is offered on each Mac."""
    return {(chip, gb): offers(catalog, machine=a_mac(gb, chip)) for chip, gb in MACS}


def choices(found):
    return {offer.choice: offer for offer in found if offer.choice}


def test_one_is_recommended_and_every_no_has_a_reason(catalog, everywhere):
    qualities = []
    for (chip, memory_gb), found in everywhere.items():
        machine = a_mac(memory_gb, chip)
        assert len(found) == sum(model.has_shape for model in catalog.targets)
        best = recommended(found)
        assert found[0] is best
        assert best.reason == ""
        for offer in found:
            assert bool(offer.reason) == (offer.needed_bytes > machine.available_bytes)
            if offer.reason:
                assert f"{size(machine.available_bytes)} are available" in offer.reason
        chosen = [bool(offer.choice) for offer in found]
        assert chosen == sorted(chosen, reverse=True)
        possible = [not offer.reason for offer in found if not offer.choice]
        assert possible == sorted(possible, reverse=True)
        qualities.append(catalog.models[best.target].quality)
    assert qualities == sorted(qualities)  # more memory never recommends less
    assert len(set(qualities)) >= 4


def test_the_choices_differ_in_what_they_promise_and_leave_room_for_the_system(catalog, everywhere):
    for (_, memory_gb), found in everywhere.items():
        chosen = choices(found)
        best, smallest = chosen["best"], chosen["smallest"]
        assert best.tokens_per_second is not None
        assert 1.5 * smallest.needed_bytes < best.needed_bytes
        if "quickest" in chosen:
            assert (chosen["quickest"].tokens_per_second or 0) > best.tokens_per_second
        if catalog.models[best.target].bits == 8:
            assert best.tokens_per_second >= AT_EASE
        for offer in chosen.values():
            assert (offer.tokens_per_second or 0) >= AS_FAST_AS_READING
            assert offer.needed_bytes < offer.long_bytes
            with_process = offer.long_bytes + OWN_BYTES
            assert with_process <= LEAVES_ROOM * offer.available_bytes
            assert with_process <= 0.72 * (memory_gb << 30), "the rest is the system's"
            assert offer.verified
            assert offer.sources
            assert offer.abilities
            assert not offer.caution


def test_four_cases_that_others_measured(everywhere):
    """A pair that swaps on 32 GB (Rapid-MLX issue 1650), 5.98 GiB on 8 GB (its measurements), 9B on
    an M4 of 24 GB, and an M5 Max beside an M4 Max."""
    chosen = choices(everywhere["M2 Pro", 32])
    assert all("35B" not in offer.target for offer in chosen.values())
    assert chosen["best"].target == "mlx-community/Qwen3.8-27B-4bit"  # no swap: its PR 2512
    assert all("4B" not in offer.target for offer in choices(everywhere["M1", 8]).values())
    best = recommended(everywhere["M4", 24])
    assert (best.target, round(best.tokens_per_second or 0)) == (QWEN_9B, 33)
    kinds = {offer.target: offer.drafter_kinds for offer in everywhere["M4", 24]}
    assert "mtp" in kinds[QWEN_9B]
    assert "pard" in kinds[LLAMA]
    assert "eagle-3" not in kinds[LLAMA]  # pickled


def test_what_mlx_lm_does_not_know_or_is_not_verified_is_offered_and_not_recommended(few):
    machine = a_mac(48)
    best = recommended(offers(few, machine=machine)).target
    strange = few.models[STARTER.name].config | {"model_type": "unheard_of"}
    for change, reason in (({"config": strange}, "mlx-lm"), ({"verified": False}, "")):
        models = {**few.models, best: replace(few.models[best], **change)}
        found = offers(replace(few, models=models), machine=machine)
        offer = next(offer for offer in found if offer.target == best)
        assert (offer.verified, bool(offer.reason)) == ("config" in change, bool(reason))
        assert reason in offer.reason
        assert recommended(found).target != best


def test_where_drafts_lose_that_is_said_and_none_is_fetched(few):
    def seen(chip):
        found = offers(few, machine=a_mac(64, chip))
        return next(offer for offer in found if offer.target == QWEN_27B)

    losing, gaining = seen("M1 Max"), seen("M4 Max")
    assert (losing.drafter, losing.gain) == ("", 1.0)
    assert "M1 Max" in losing.note
    assert gaining.drafter
    assert not gaining.note
    assert (gaining.gain or 0) > 2
    assert "drafts" in gaining.sources[-1].lower()
    assert losing.download_bytes == few.models[QWEN_27B].download_bytes


def test_a_calibration_takes_the_place_of_published_figures(few):
    steep = Measured(0.2, RowCurve(((1, 1.0), (2, 2.0), (8, 8.0))))
    found = offers(few, machine=a_mac(64, "M4 Max"), measured={QWEN_27B: steep})
    offer = next(offer for offer in found if offer.target == QWEN_27B)
    assert offer.tokens_per_second == pytest.approx(5.0)
    assert offer.drafter == ""
    assert "measured" in offer.sources[0]
    assert not offer.choice, "it is slower than the user reads"


def test_more_than_a_machine_is_meant_for_is_not_recommended(few):
    raised = Machine("m", 16 << 30, 16 << 30, unified=True)  # a limit that somebody raised
    found = offers(few, machine=raised)
    larger = [offer for offer in found if offer.memory_class_gb > 16 and not offer.reason]
    assert larger
    for offer in larger:
        assert f"{offer.memory_class_gb} GB" in offer.caution
        assert f"{offer.largest_context:,} tokens" in offer.caution
    assert {offer.caution for offer in found if offer.memory_class_gb <= 16} == {""}
    assert recommended(found).memory_class_gb <= 16
    rest = [offer for offer in found if not offer.reason and not offer.choice]
    assert {bool(offer.caution) for offer in rest} == {False, True}
    assert rest == sorted(rest, key=lambda offer: bool(offer.caution))


def test_what_is_here_is_not_downloaded_again(few):
    def offer(*here):
        found = offers(few, machine=a_mac(16, "M99"), installed=here)
        assert {each.tokens_per_second for each in found} == {None}  # no one measured that chip
        return next(offer for offer in found if offer.target == QWEN_8B)

    sizes = {name: few.models[name].download_bytes for name in (QWEN_8B, ITS_DRAFTER)}
    drafter, target = installed(ITS_DRAFTER), installed(QWEN_8B)
    assert offer().download_bytes == sizes[QWEN_8B] + sizes[ITS_DRAFTER]
    assert offer(drafter).download_bytes == sizes[QWEN_8B]
    assert not offer(drafter).installed
    assert offer(drafter, target).download_bytes == 0
    assert offer(drafter, target).installed
    assert not offer(drafter, installed(QWEN_8B, problem="damaged")).installed


def test_a_full_disk_is_a_reason_for_what_is_not_here_yet(few):
    here = [installed(QWEN_8B), *(installed(each.name) for each in few.drafters)]
    found = offers(few, machine=a_mac(16), installed=here, free_bytes=SPARE_DISK_BYTES - 1)
    reasons = {offer.target: offer.reason for offer in found}
    assert reasons[QWEN_8B] == ""
    assert "of disk" in reasons["mlx-community/Qwen3.5-4B-MLX-4bit"]
    assert recommended(found).target == QWEN_8B
    plenty = offers(few, machine=a_mac(16), free_bytes=10**12)
    assert plenty == offers(few, machine=a_mac(16))


def test_the_starter_is_recommended_where_nothing_fits(few):
    on_disk = recommended(offers(few, machine=a_mac(16), free_bytes=0))
    assert (on_disk.target, on_disk.long_bytes) == (STARTER.name, 0)  # its context is shorter
    in_memory = Machine("m", 4 << 30, 50_000_000, unified=True)
    best = recommended(offers(few, machine=in_memory))
    assert best.target == STARTER.name
    assert best.reason


def test_what_does_not_fit_alone_may_fit_on_several(few):
    here, beside = a_mac(16), a_mac(36)
    alone = {offer.target: offer for offer in offers(few, machine=here)}
    found = offers(few, machine=here, macs=[here, beside])
    assert recommended(found) == recommended(list(alone.values()))
    shared = [offer for offer in found if offer.macs > 1]
    assert shared
    for offer in shared:
        assert alone[offer.target].reason
        assert (offer.reason, offer.macs, offer.long_bytes) == ("", 2, 0)
        assert here.available_bytes < offer.needed_bytes <= offer.available_bytes
        assert offer.available_bytes == here.available_bytes + beside.available_bytes
    assert all(offer == alone[offer.target] for offer in found if offer.macs == 1)
    full = offers(few, machine=here, macs=[here, beside], free_bytes=0)
    assert all("of disk" in offer.reason for offer in full if offer.macs > 1)


# A catalog from elsewhere


def changed(path, change):
    document = json.loads(SHIPPED.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


def _model(field, value):
    return lambda c: c["models"]["mlx-community/Qwen3-8B-4bit"].update({field: value})


def _drafter(field, value):
    return lambda c: c["drafters"][0].update({field: value})


def test_what_cannot_be_read_is_refused(tmp_path, subtests):
    for change, named in [
        (lambda c: c.update(version=VERSION + 1), "version 3, newer"),
        (lambda c: c.update(version=0), "version"),
        (lambda c: c.update(more=1), "catalog has no field"),
        (_model("weights_bytes", 0), "the size of"),
        (_model("bits", 7), "the bits"),
        (_drafter("committed", {"8": 9.0}), "the acceptance of"),
        (lambda c: c["drafters"].append(3), "drafters"),
        (lambda c: c["models"].pop(STARTER.name), "starter"),
    ]:
        with subtests.test(named=named):
            with pytest.raises(Problem, match=named) as problem:
                load_catalog(changed(tmp_path / "c.json", change))
            assert problem.value.remedy
            assert problem.value.message.isprintable()
            assert len(problem.value.message) < 500


# Expected speeds: the table of chips, the arithmetic of drafts, and what has no figures


DRAFTS = Drafts("dspark", 1e9, drafted=7, committed=4.83, source="somebody")


def test_memory_tells_chips_of_one_name_apart_and_what_drafts_gain_on_them():
    chips = load_chips()

    def bandwidth(name, memory_gb):
        machine = mac(name, {"hw.memsize": str(memory_gb << 30)})
        return chips.find(machine.name, machine.memory_bytes).bandwidth_gb_s

    assert bandwidth("Apple M4 Max", 36) == 410
    assert bandwidth("Apple M4 Max", 128) == 546
    assert bandwidth("Apple M4 Max", 99) == 410, "the slower one where it is not known"
    assert bandwidth("Apple M4 Pro", 48) == 273
    assert chips.find("x86_64", 32 << 30) is None
    by_name = {chip.name: chip for chip in chips.chips}
    assert longest_that_gains(by_name["M1 Max"], 4) == 0
    four, eight = (longest_that_gains(by_name["M4 Pro"], bits) for bits in (4, 8))
    assert 2 <= four <= eight


def test_the_arithmetic_is_that_of_the_controller():
    chance = DRAFTS.acceptance
    assert sum(chance**i for i in range(8)) == pytest.approx(DRAFTS.committed)
    assert Drafts("mtp", 1.0, 2, 3.0, "").acceptance == pytest.approx(1.0)
    curve = RowCurve(((1, 1.0), (2, 1.03), (4, 1.47), (8, 2.69)))
    draft = DraftCosts("any", start_seconds=0.1, step_seconds=0.05)
    costs = {"start": draft.start_seconds, "step": draft.step_seconds}
    for acceptance in (0.3, 0.7, 0.95):
        rows = [curve.cost(count) for count in range(1, 9)]
        options = chains("any", [acceptance] * 7, rows, draft)
        for option in options:
            gain = curve.gain(option.drafted, acceptance=acceptance, **costs)
            assert gain == pytest.approx(option.gain)
        best = max(options, key=lambda option: option.gain)
        length, gain = curve.best(acceptance=acceptance, longest=7, **costs)
        assert (length, gain) == ((best.drafted, pytest.approx(best.gain)) if gain > 1 else (0, 1))
