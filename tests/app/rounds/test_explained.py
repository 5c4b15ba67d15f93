"""Every kind of token and every figure has an explanation, and the dialog has them all."""

from typing import get_args

from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.rounds.explained import FIGURE_NAMES, FIGURES, KINDS, KindWord, RoundsExplained
from app.rounds.lane import DraftLane
from app.rounds.trace import PieceKind


def test_the_dialog_explains_everything(qtbot: QtBot) -> None:
    dialog = RoundsExplained()
    qtbot.addWidget(dialog)
    assert set(KINDS) == set(get_args(PieceKind))
    assert len(dialog.findChildren(KindWord)) == len(KINDS)
    words = {label.text() for label in dialog.findChildren(QLabel)}
    assert {f"{kind.capitalize()}. {line}" for kind, line in KINDS.items()} <= words
    assert {*FIGURES.values()} <= words
    assert len(words) >= len(KINDS) + 2 * len(FIGURE_NAMES)
    assert {label.textFormat().name for label in dialog.findChildren(QLabel)} == {"PlainText"}


def test_its_rounds_show_every_fate_of_a_draft_and_a_tree(qtbot: QtBot) -> None:
    dialog = RoundsExplained()
    qtbot.addWidget(dialog)
    chain, tree = [lane.shown.round for lane in dialog.findChildren(DraftLane) if lane.shown]
    fates = [token.fate for token in chain.tokens]
    assert fates == ["accepted", "accepted", "rejected", "discarded", "correction"]
    assert (chain.tree.is_chain, tree.tree.is_chain) == (True, False)
    for one in (chain, tree):
        assert one.verdict is not None
        rejected = [one.drafted[number] for number in one.verdict.rejected]
        assert rejected == [token for token in one.drafted if token.fate == "rejected"]
    assert not dialog.grab().isNull()
