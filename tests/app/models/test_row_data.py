"""Records become rows: nothing is greyed out without a reason, and figures can be read."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.models import formatting
from app.models.offers import memory_line, offer_key, offer_rows, offer_states
from app.models.row_data import (
    LoadedPair,
    RowData,
    candidate_rows,
    disk_rows,
    disk_summary,
    download_rows,
    found_rows,
    named_row,
)
from models.records import (
    PROGRAM_NAMES,
    Candidate,
    Download,
    Installed,
    Inventory,
    ModelOrigin,
    PairOffer,
    SearchResult,
)
from tests.support.app.library_samples import (
    CANDIDATES,
    DOWNLOADS,
    DRAFTER,
    FOUND,
    GB,
    INCOMPLETE,
    INSTALLED,
    OFFERS,
    TARGET,
    offer,
)

INVENTORY = Inventory(INSTALLED, INCOMPLETE, DOWNLOADS, ("/folder",), 102 * GB)


def by_key(rows: Sequence[RowData]) -> dict[str, RowData]:
    return {row.key: row for row in rows}


def actions(row: RowData) -> dict[str, bool]:
    """Which can be done."""
    return {action.name: not action.reason for action in row.actions}


def test_search_results_become_rows() -> None:
    rows = by_key(found_rows(FOUND, inventory=INVENTORY, downloads=DOWNLOADS))
    assert list(rows) == [one.repository for one in FOUND]
    assert rows[DRAFTER].badge == "On this machine"
    assert actions(rows[DRAFTER]) == {"use": True}
    assert rows[TARGET].badge == "Downloading"
    assert rows[TARGET].progress == pytest.approx(1.24 / 2.28)
    assert actions(rows[TARGET]) == {"get": False}
    large = rows["mlx-community/Qwen3-235B-A22B-4bit"]
    assert large.reasons == "Needs 139 GB of memory; models can use 12.0 GB here."
    assert actions(large) == {"get": False}
    assert large.line == "132 GB · 9.1 k downloads · License: Apache 2.0 · updated 2025-05-01"
    assert large.line in large.accessible_text
    alone = found_rows(FOUND[:1], inventory=Inventory(), downloads=())
    assert actions(alone[0]) == {"get": True}


def test_a_full_name_can_be_downloaded_though_the_search_did_not_find_it() -> None:
    def named(name: str) -> list[str]:
        rows = named_row(name, FOUND, inventory=INVENTORY, downloads=DOWNLOADS)
        assert all(actions(row) == {"get": True} for row in rows)
        return [row.key for row in rows]

    for name in ("someone/model", "someone/model/file-Q4_0.gguf"):
        assert named(name) == [name]
    for name in (
        *("qwen", "a b/c", "a/b/c", "/a/b", "a/b/", "a//b.gguf", FOUND[3].repository.upper()),
        *(DOWNLOADS[2].repository, INSTALLED[1].name),
    ):
        assert named(name) == []


def test_downloads_of_every_status() -> None:
    running, queued, paused, failed = download_rows(DOWNLOADS)
    assert running.line == "1.24 of 2.28 GB · 31.4 MB/s · 35 s left"
    assert actions(running) == {"pause": True, "cancel": True}
    assert queued.line == "Waiting · 0 bytes of 351 MB"
    assert paused.line == "Paused · 4.00 of 12.1 GB"
    assert actions(paused) == {"resume": True, "cancel": True}
    assert failed.warns
    assert failed.reasons.endswith("choose another model meanwhile.")
    assert actions(failed) == {"resume": True, "cancel": True}
    assert failed.line.startswith("Failed")
    (waits,) = download_rows((replace(DOWNLOADS[0], request="pause"),))
    assert waits.line == waits.actions[0].reason
    assert actions(waits) == {"pause": False, "cancel": False}
    (begins,) = download_rows((Download("a/b", "", "running", 0, 0),))
    assert (begins.line, begins.progress) == ("Reading file sizes…", 0.0)


def test_what_is_on_the_disk() -> None:
    loaded = LoadedPair(INSTALLED[1].path, INSTALLED[2].path)
    rows = {row.title: row for row in disk_rows(INVENTORY, loaded)}
    answers = rows[INSTALLED[1].name]
    assert answers.badge == "In use"
    assert actions(answers) == {"delete": False}  # and its badge says why there is no other
    assert answers.reasons
    assert rows[INSTALLED[2].name].badge == "In use as draft model"
    assert actions(rows[INSTALLED[0].name]) == {"use": True, "delete": True}
    assert rows[INSTALLED[0].name].line.endswith("used 4 hours ago")
    drafter = rows[INSTALLED[3].name]
    assert actions(drafter) == {"delete": True}
    assert "drafter only" in drafter.line
    mine = rows["a-model-of-mine"]
    assert actions(mine) == {"use": False, "delete": False}
    assert mine.reasons.startswith("It has no tokenizer. Put the tokenizer.json")
    assert actions(rows[INCOMPLETE[0].name]) == {"clean": True}
    assert actions(rows["/folder"]) == {"forget": True}
    assert disk_summary(INVENTORY) == "5 models, 11.6 GB in total · 102 GB free"
    head = replace(INSTALLED[0], role="head")
    assert actions(disk_rows(Inventory((head,)), LoadedPair())[0]) == {"delete": True}
    (shipped,) = disk_rows(Inventory((replace(head, removable=False),)), LoadedPair())
    assert actions(shipped) == {"delete": False}


@pytest.mark.parametrize(("origin", "program"), PROGRAM_NAMES.items())
def test_a_model_of_another_program_says_whose_it_is(origin: ModelOrigin, program: str) -> None:
    theirs = replace(INSTALLED[1], name="llama3.2:3b", origin=origin, removable=False)
    (row,) = disk_rows(Inventory((theirs,)), LoadedPair())
    assert f"in {program}'s folder" in row.line
    use, delete = row.actions
    assert (use.name, use.reason) == ("use", "")
    assert f"Delete it in {program}" in delete.reason


def test_candidates_with_their_reasons() -> None:
    rows = by_key(
        candidate_rows(CANDIDATES, LoadedPair("/t", "lookup"), inventory=INVENTORY, downloads=())
    )
    assert rows["lookup"].badge == "In use"
    assert actions(rows[DRAFTER]) == {"use": True}
    assert rows[DRAFTER].line == "A model · 351 MB"
    assert "a drafted token costs 16.0%" in rows[DRAFTER].remark
    missing = rows["mlx-community/Qwen3-1.7B-4bit"]
    assert (actions(missing), missing.reasons) == ({"get": True}, "")
    reworded = replace(CANDIDATES[4], reason="It can be downloaded.")
    _, row = candidate_rows((reworded,), LoadedPair(), inventory=INVENTORY, downloads=())
    assert actions(row) == {"get": True}
    too_large = replace(CANDIDATES[4], reason="It has no room.", obstacle="no room")
    _, row = candidate_rows((too_large,), LoadedPair(), inventory=INVENTORY, downloads=())
    assert actions(row) == {"get": False}
    path = LoadedPair("/t", f"/models/{DRAFTER}")
    assert by_key(candidate_rows(CANDIDATES, path, inventory=INVENTORY, downloads=()))[
        DRAFTER
    ].badge
    assert actions(rows["head"]) == {"use": False}
    assert rows["head"].reasons.startswith("No head was trained for these weights")
    assert rows["head"].heading != rows["lookup"].heading


def test_offers_and_how_far_they_are() -> None:
    states = {
        state.key: state
        for state in offer_states(
            OFFERS,
            inventory=INVENTORY,
            downloads=DOWNLOADS,
            loaded=LoadedPair(),
            pending=offer_key(OFFERS[0]),
        )
    }
    best = states[offer_key(OFFERS[0])]
    assert best.progress == pytest.approx(1.24 / 2.631)
    assert best.status_text == "Downloading · 1.24 of 2.63 GB · 45 s left"  # of both
    assert (best.pending, best.downloading, bool(best.action.reason)) == (True, True, True)
    paused = states[offer_key(OFFERS[3])]
    assert paused.status_text == "Paused · 4.00 of 12.1 GB"
    assert paused.action.reason == OFFERS[3].reason
    (failed,) = offer_states(
        OFFERS[:1], inventory=Inventory(), downloads=(replace(DOWNLOADS[3], repository=TARGET),),
        loaded=LoadedPair(), pending="",
    )  # fmt: skip
    assert failed.failed is not None
    assert "model.safetensors is damaged" in failed.status_text
    assert (failed.action.name, failed.action.reason) == ("get", "")
    (here,) = offer_states(
        (replace(OFFERS[0], target=INSTALLED[1].name, installed=True),),
        inventory=INVENTORY,
        downloads=(),
        loaded=LoadedPair(INSTALLED[1].path),
        pending="",
    )
    assert (here.in_use, bool(here.action.reason)) == (True, True)


def test_offers_for_more_memory_come_last_under_one_heading() -> None:
    states = offer_states(
        OFFERS, inventory=Inventory(), downloads=(), loaded=LoadedPair(), pending=""
    )
    rows = offer_rows(states)
    fitting = [state.key for state in states if not state.offer.reason]
    assert [row.key for row in rows][: len(fitting)] == fitting, "in their order"
    headings = [row.heading for row in rows]
    assert headings == ["Also for this machine"] * 3 + ["For more memory"] * 2


texts = st.sampled_from(("", "It cannot be used."))
statuses = st.sampled_from(("queued", "running", "paused", "failed", "done"))
downloads = st.lists(
    st.builds(
        Download,
        repository=st.sampled_from((TARGET, DRAFTER, "a/b")),
        status=statuses,
        done_bytes=st.integers(0, 1 << 50),
        total_bytes=st.integers(0, 1 << 50),
        bytes_per_second=st.floats(0, 1e12),
        seconds_left=st.none() | st.floats(0, 1e9),
    ),
    unique_by=lambda one: one.repository,
)
models = st.lists(
    st.builds(
        Installed,
        name=st.sampled_from((TARGET, DRAFTER, "c")),
        path=st.sampled_from(("/t", "/d", "/c")),
        size_bytes=st.integers(0, 1 << 50),
        last_used=st.none() | st.floats(0, 1e11),
        problem=texts,
    )
)
loadeds = st.builds(
    LoadedPair, st.sampled_from(("", "/t")), st.sampled_from(("auto", "/d", DRAFTER))
)


@given(
    st.lists(
        st.builds(SearchResult, repository=st.sampled_from((TARGET, "a/b", "x/y")), reason=texts)
    ),
    st.lists(
        st.builds(
            Candidate, drafter=st.sampled_from(("head", DRAFTER)), reason=st.just("It says why.")
        )
    ),
    st.lists(
        st.builds(PairOffer, target=st.just(TARGET), drafter=st.just(DRAFTER), reason=texts),
        max_size=2,
    ),
    models,
    downloads,
    loadeds,
)
def test_nothing_is_greyed_out_without_a_reason(
    found: list[SearchResult],
    candidates: list[Candidate],
    offers: list[PairOffer],
    installed: list[Installed],
    going: list[Download],
    loaded: LoadedPair,
) -> None:
    inventory = Inventory(tuple(installed), INCOMPLETE, tuple(going), ("/x",))
    states = offer_states(offers, inventory=inventory, downloads=going, loaded=loaded, pending="")
    rows = (
        *found_rows(found, inventory=inventory, downloads=going),
        *candidate_rows(candidates, loaded, inventory=inventory, downloads=going),
        *offer_rows(states),
        *disk_rows(inventory, loaded),
        *download_rows(going),
    )
    for row in rows:
        assert row.title in row.accessible_text
        assert row.progress is None or row.progress >= 0
        for action in row.actions:
            assert not action.reason or row.reasons or action.reason == row.line
    for one in found:
        refused = one.reason and inventory.find(one.repository) is None
        row = by_key(found_rows([one], inventory=inventory, downloads=()))[one.repository]
        assert actions(row).get("get") is (not refused if "get" in actions(row) else None)


def test_counts_and_names_in_words() -> None:
    for said, expected in (
        (formatting.format_count(812), "812"),
        (formatting.format_count(9_120), "9.1 k"),
        (formatting.format_count(182_400), "182 k"),
        (formatting.format_count(2_310_000), "2.3 M"),
        (formatting.format_context(40_960), "Context: 40k tokens"),
        (formatting.format_context(512), "Context: 512 tokens"),
        (formatting.format_licence("apache-2.0"), "License: Apache 2.0"),
        (formatting.format_licence("lfm1.0"), "License: LFM 1.0"),
        (formatting.format_licence("llama3.2"), "License: Llama 3.2"),
        (formatting.format_licence("cc-by-nc-4.0"), "License: CC BY NC 4.0"),
        (formatting.format_licence("mistral-research"), "License: Mistral research"),
        (formatting.format_licence(""), "License: not stated"),
        (formatting.short_name("a/b"), "b"),
        (formatting.short_name("b"), "b"),
    ):
        assert said == expected


def test_the_same_failure_is_explained_once() -> None:
    rows = download_rows(
        tuple(
            Download(name, "", "failed", 1, 4, problem="There is no connection.", remedy="Wait.")
            for name in ("a/a", "b/b")
        )
    )
    assert [row.reasons for row in rows] == ["There is no connection. Wait.", ""]
    assert all(row.line.startswith("Failed") for row in rows)


def test_a_pair_for_larger_machines_is_offered_with_a_warning() -> None:
    tight = replace(OFFERS[0], caution="It is meant for 36 GB of memory.", recommended=False)
    states = offer_states(
        (tight,), inventory=Inventory(), downloads=(), loaded=LoadedPair(), pending=""
    )
    (row,) = offer_rows(states)
    assert (row.warns, row.reasons) == (True, tight.caution)
    assert actions(row) == {"get": True}


def test_drafters_that_others_trained() -> None:
    published = Candidate(
        "Qwen/Qwen3.5-27B/mtp.safetensors",
        "mtp",
        False,
        "It is not downloaded.",
        installed=False,
        obstacle="not installed",
        tried=False,
    )
    _, row = candidate_rows((published,), LoadedPair(), inventory=INVENTORY, downloads=())
    assert row.title == "Qwen3.5-27B (MTP module)"
    assert actions(row) == {"get": True}
    assert row.line.startswith("MTP · License: not known")
    pickled = replace(published, drafter="o/a", obstacle="unsupported", reason="It is pickled.")
    _, row = candidate_rows((pickled,), LoadedPair(), inventory=INVENTORY, downloads=())
    assert actions(row) == {"get": False}
    here = replace(
        published, drafter="o/spark", kind="dspark", installed=True, works=True, obstacle=""
    )
    _, row = candidate_rows((here,), LoadedPair(), inventory=INVENTORY, downloads=())
    assert actions(row) == {"use": True}
    assert row.line.startswith("DSpark · Not tried")
    assert "License" not in row.line
    installed = replace(INSTALLED[3], drafter_kind="gemma-4-assistant")
    assert "Gemma-4 assistant" in disk_rows(Inventory((installed,)), LoadedPair())[0].line


def test_a_row_says_on_how_many_macs_a_pair_fits() -> None:
    for macs in (1, 2):
        states = offer_states(
            [offer("o/large", macs=macs)],
            inventory=Inventory(),
            downloads=(),
            loaded=LoadedPair(),
            pending="",
        )
        (row,) = offer_rows(states)
        assert ("Fits on 2 Macs" in row.remark) == (macs == 2)
        assert ("this machine" in memory_line(states[0].offer)) == (macs == 1)
