"""The pill and its page offer models and drafters, with reasons, and show loading."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QComboBox, QLabel, QProgressBar, QPushButton, QWidget

from app.choice_box import Choice
from app.models.formatting import target_name
from app.models.pair_bar import PairBar, Pill, drafter_choices, target_choices
from models.records import Candidate
from tests.support.app.library_samples import CANDIDATES, DRAFTER, INSTALLED, installed
from tests.support.app.window_use import part, pick

SNAPSHOT = f"/hub/models--someone--Large/snapshots/{'a' * 40}"
TARGETS = (
    Choice("/models/small", "Small", "4-bit, 78 MB"),
    Choice("/models/large", "Large", reason="Needs 40 GB of memory; there are 16."),
    Choice("/models/other", "Other"),
)


@pytest.fixture
def bar(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    bar = PairBar(window)
    bar.resize(900, 60)
    bar.set_targets(TARGETS)
    bar.set_pair("/models/small", drafter="auto", length="auto")
    window.resize(900, 100)
    window.show()
    window.activateWindow()
    yield bar
    window.close()


@pytest.fixture
def chosen(bar):
    heard = []
    bar.pair_chosen.connect(lambda *pair: heard.append(pair))
    return heard


def box(bar, name):
    return part(bar, QComboBox, name)


def shown(page):
    """The texts on the page."""
    return [label.text() for label in page.findChildren(QLabel) if not label.isHidden()]


def test_each_choice_emits_the_whole_pair_and_no_setting_does(bar, chosen):
    pick(box(bar, "Model"), "Other")
    pick(box(bar, "Draft model"), "Lookup")
    pick(box(bar, "How far ahead"), "16 tokens")
    pick(box(bar, "How far ahead"), "Tree of 8")
    assert chosen == [
        ("/models/other", "auto", "auto"),
        ("/models/other", "lookup", "auto"),
        ("/models/other", "lookup", "16"),
        ("/models/other", "lookup", "tree:8"),
    ]
    chosen.clear()
    bar.set_pair("/models/other", drafter="none", length="0")
    pick(box(bar, "Model"), "Other")
    assert chosen == []
    assert (bar.target, bar.drafter, bar.length) == ("/models/other", "none", "0")
    bar.set_targets(())
    assert (bar.target, box(bar, "Model").currentText(), chosen) == ("/models/other", "other", [])
    bar.set_pair("/elsewhere/Mine/", drafter="/heads/best", length="3")
    assert box(bar, "Model").currentText() == "Mine"
    assert box(bar, "Model").toolTip() == "/elsewhere/Mine/"
    assert box(bar, "Draft model").currentText() == "best"


def test_tasks_and_a_head_that_is_greyed_out_with_the_reason_are_not_choices(bar, qtbot, chosen):
    for head, words in ((True, "Head. "), (False, "Head, not available. None was trained.")):
        candidate = Candidate("head", "head", head, "It is fine." if head else "None was trained.")
        bar.set_drafters(drafter_choices((candidate,)))
        chooser = box(bar, "Draft model")
        index = chooser.model().index(chooser.findText("Head"), 0)
        assert bool(index.flags() & Qt.ItemFlag.ItemIsEnabled) == head
        assert index.data(Qt.ItemDataRole.AccessibleTextRole).startswith(words)
    for signal, name, task in (
        (bar.open_folder_asked, "Model", "Load a model folder…"),
        (bar.open_file_asked, "Model", "Load a GGUF file…"),
        (bar.open_drafter_asked, "Draft model", "Load a draft model’s folder…"),
        (bar.more_drafters_asked, "Draft model", "Compare all draft models…"),
    ):
        with qtbot.waitSignal(signal):
            pick(box(bar, name), task)
    assert box(bar, "Model").currentText() == "Small"
    assert chosen == []


def test_every_status_is_shown_and_the_pair_changes_between_answers_only(bar, qtbot):
    progress, retry = bar.findChild(QProgressBar), bar.findChild(QPushButton)
    assert bar.status == "empty"
    bar.set_loading("Small")
    assert bar.status == "loading"
    assert progress.isVisible()
    bar.set_measuring(0.4)
    assert bar.status == "loading"
    assert "40%" in bar.status_text
    assert progress.isVisible()
    bar.set_loaded(precision="4-bit", context_length=32_768, exact="exact, by rows")
    assert (bar.status, bar.status_text) == ("loaded", "Ready")
    assert not progress.isVisible()
    assert "Weights: 4-bit\nContext: 32,768 tokens\nText is exact, by rows" in shown(bar.page)
    bar.set_activity("Writing", tip="What is <br>?: writing")  # a title
    tips = [one.toolTip() for one in bar.findChildren(QWidget)]
    assert any(tip.startswith("What is &lt;br&gt;?: writing<br>Weights") for tip in tips)
    bar.set_failed("It has no tokenizer.", "Choose another.")
    assert (bar.status, bar.status_text) == ("failed", "It has no tokenizer. Choose another.")
    with qtbot.waitSignal(bar.retry_asked):
        QTest.mouseClick(retry, Qt.MouseButton.LeftButton)
    bar.set_failed("It is gone.", "Choose another.", retry=False)
    assert not retry.isVisible()
    bar.set_loading("Other")
    assert (bar.status, bar.status_text) == ("loading", "Loading Other…")
    names = ("Model", "Draft model", "How far ahead")
    bar.set_answering(True)
    assert not any(box(bar, name).isEnabled() for name in names)
    bar.set_answering(False)
    assert all(box(bar, name).isEnabled() for name in names)
    for drafter, possible in (("None", False), ("Automatic", True)):
        pick(box(bar, "Draft model"), drafter)
        assert box(bar, "How far ahead").isEnabled() == possible


def test_the_page_opens_below_the_pill_and_closes_for_other_pages(bar, qtbot):
    QTest.mouseClick(bar.findChild(Pill), Qt.MouseButton.LeftButton)
    assert bar.page.isVisible()
    assert bar.page.focusWidget() is box(bar, "Model")
    QTest.keyClick(bar.page, Qt.Key.Key_Escape)
    assert not bar.page.isVisible()
    for button, signal in (
        (bar.page.library, bar.library_asked),
        (bar.page.memory, bar.memory_asked),
    ):
        bar.open()
        with qtbot.waitSignal(signal):
            QTest.mouseClick(button, Qt.MouseButton.LeftButton)
        assert not bar.page.isVisible()


def test_the_pill_names_the_pair(bar):
    for target, drafter, length, said in (
        ("/models/smollm2-135m-instruct", "auto", "auto", "SmolLM2 135M \u00b7 Automatic drafts"),
        ("/models/Qwen3-4B-Instruct-4bit", "head", "4", "Qwen3 4B \u00b7 Drafts by Head, 4"),
        ("/models/a.gguf", "none", "auto", "No drafts"),
        ("", "auto", "auto", "Choose a model"),
    ):
        bar.set_pair(target, drafter=drafter, length=length)
        assert said in bar.findChild(Pill).accessibleName()


def test_targets_are_listed_once_and_drafters_are_not():
    here = (*INSTALLED, installed("someone/Large", path=SNAPSHOT))
    starter = Choice("starter", "smollm2-135m-instruct", "The starter model")
    choices = target_choices(here, starter=starter, opened=("/files/a.gguf", SNAPSHOT))
    assert [choice.name for choice in choices] == [
        "smollm2-135m-instruct",
        "a.gguf",
        "Llama-3.2-3B-Instruct-4bit",
        "Qwen3-0.6B-4bit",
        "a-model-of-mine",
        "Large",
    ]
    assert choices[0] is starter
    assert choices[-1].value == SNAPSHOT
    assert choices[-2].reason.startswith("It has no tokenizer. Put")
    assert not any(choice.reason for choice in choices if choice is not choices[-2])
    (_, unlisted) = target_choices((), starter=starter, opened=(SNAPSHOT,))
    assert (unlisted.value, unlisted.name) == (SNAPSHOT, "Large")
    assert [target_name(path) for path in (SNAPSHOT, "/a/plain", "")] == [
        *("Large", "plain", "the starter model")
    ]


def test_what_can_draft_and_why_the_rest_cannot():
    choices = {one.value: one for one in drafter_choices(CANDIDATES, opened=(DRAFTER,))}
    assert len(choices) == 10
    assert choices[DRAFTER].name == "Qwen3-0.6B-4bit"
    assert choices[DRAFTER].line == CANDIDATES[0].reason
    assert {value for value, one in choices.items() if one.reason} == {
        "head",
        "mlx-community/Qwen3-1.7B-4bit",
        "mlx-community/Llama-3.2-3B-Instruct-4bit",
    }
    assert choices["head"].reason.startswith("No head was trained")
    unknown = drafter_choices((), opened=("/drafters/mine",))
    assert [choice.value for choice in unknown] == [
        *("auto", "lookup", "suffix", "lookahead", "head", "early-exit", "none"),
        "/drafters/mine",
    ]
    assert not any(choice.reason for choice in unknown)
