"""Every kind of token and every figure has an explanation, and the dialog has them all."""

from typing import get_args

from PySide6.QtWidgets import QLabel

from app.rounds.explained import FIGURE_NAMES, FIGURES, KINDS, SAMPLE, KindWord, RoundsExplained
from app.rounds.trace import PieceKind


def test_the_dialog_explains_everything(qtbot):
    dialog = RoundsExplained()
    qtbot.addWidget(dialog)
    assert set(KINDS) == set(get_args(PieceKind))
    assert len(dialog.findChildren(KindWord)) == len(KINDS) + len(SAMPLE)
    words = {label.text() for label in dialog.findChildren(QLabel)}
    assert {f"{kind.capitalize()}. {line}" for kind, line in KINDS.items()} <= words
    assert {*FIGURES.values()} <= words
    assert len(words) >= len(KINDS) + 2 * len(FIGURE_NAMES)
    assert {label.textFormat().name for label in dialog.findChildren(QLabel)} == {"PlainText"}


def test_its_round_has_every_fate_of_a_draft(qtbot):
    kinds = [kind for _, kind in SAMPLE]
    assert kinds == ["accepted", "accepted", "rejected", "discarded", "correction"]
