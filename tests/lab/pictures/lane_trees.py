"""Pictures of the draft lane with trees: of several sizes, before and after several verdicts.

python -m tests.lab.pictures.lane_trees FOLDER
"""

import os
import random
import sys
from collections.abc import Sequence
from heapq import heappop, heappush
from pathlib import Path

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.rounds.lane import DraftLane
from app.start import make_application
from app.theme.palette import DARK, LIGHT
from app.theme.style import qt_palette
from engine.conversation.rounds import branches
from tests.support.app.traces import made_round, tree_round

SIZES = (4, 8, 32)
WIDTHS = (900, 1600)
_LANE = {900: 560, 1600: 720}  # how wide the lane is in a window of that width
_SHARES = (0.6, 0.2, 0.1, 0.05)  # q of the alternatives for a place
_WORDS = (
    *(" the", " small", " model", " writes", " ahead", " and", " a", " large", " one", " reads"),
    *(" what", " it", " wrote", ",", ".", " then", " keeps", " every", " word", " that", " stands"),
)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = make_application(["pictures"])
    for dark in (False, True):
        for width in WIDTHS:
            page = draw(width=_LANE[width], dark=dark)
            page.grab().save(str(folder / f"trees-{'dark' if dark else 'light'}-{width}.png"))
            page.deleteLater()
            application.processEvents()


def draw(*, width: int, dark: bool) -> QWidget:
    """A lane for every state."""
    page = QWidget()
    page.setPalette(qt_palette(DARK if dark else LIGHT))
    page.setAutoFillBackground(True)
    column = QVBoxLayout(page)
    for size in SIZES:
        tokens = made_tree(size, random.Random(size))
        drafted = tree_round(size, *tokens)[0]
        found = branches(drafted.drafted)
        tree = drafted.tree
        paths = ((), found[0], found[0][:2], tree.path(found[1][-1]), tree.path(found[-1][0]))
        for round in (drafted, *(tree_round(size, *tokens, path=path)[1] for path in paths)):
            lane = DraftLane()
            if round.verdict is None:
                lane.show_round(round)
            else:
                lane.show_round(round)
            column.addWidget(lane)
    lane = DraftLane()
    lane.show_round(made_round(3, " a", " chain", " as", " before", accepted=2)[1])
    column.addWidget(lane)
    page.setFixedWidth(width + 22)
    page.adjustSize()
    return page


def made_tree(size: int, chance: random.Random) -> Sequence[tuple[str, int, float]]:
    """The likeliest tokens, as a drafter would that gives the same shares everywhere."""
    found: list[tuple[str, int, float]] = []
    waiting = [(-_SHARES[0], 0, -1, 0)]  # the path's chance, when it was found, parent, rank
    while len(found) < size:
        product, _, parent, rank = heappop(waiting)
        number, share = len(found), _SHARES[rank]
        taken = {text for text, other, _ in found if other == parent}
        words = [word for word in _WORDS if word not in taken]
        found.append((chance.choice(words), parent, share))
        if rank + 1 < len(_SHARES):
            beside = product / share * _SHARES[rank + 1]
            heappush(waiting, (beside, len(waiting) + 10 * number, parent, rank + 1))
        heappush(waiting, (product * _SHARES[0], len(waiting) + 10 * number, number, 0))
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
