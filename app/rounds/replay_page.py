"""A replay as one page that plays in any browser: no network, no library.

Knows a replay; the page itself is resources/replay.html.
"""

import json
from itertools import groupby
from pathlib import Path

from app.conversations.answer_figures import figures_of
from app.rounds.figures import answer_line
from app.rounds.marks import flat
from app.rounds.trace import Replay

_PAGE = Path(__file__).parents[2] / "resources" / "replay.html"
_EMPTY = '<script type="application/json" id="data">{}</script>'


def replay_page(replay: Replay, *, title: str, question: str = "", target: str = "") -> str:
    """Return the page as HTML. It contains the texts of the question and of the answer."""
    seconds = {each.number: each.verdict.seconds for each in replay.rounds if each.verdict}
    figures = figures_of(replay.events)
    line = answer_line(figures, complete=False) if figures else ""
    gain, _, under = line.partition(" \u00b7 ")
    data = {
        "title": flat(title),
        "question": flat(question),
        "gain": gain[:1].upper() + gain[1:],
        "under": " \u00b7 ".join(filter(None, (under, target or "Slipstream"))),
        "rounds": [
            {
                "seconds": seconds.get(number, 0.0),
                "pieces": [
                    shown
                    for index, piece in pieces
                    for shown in (
                        [flat(piece.text), piece.kind],
                        [flat(replay.lines.get(index, "")), "line"],
                    )
                    if shown[0] or shown[1] != "line"
                ],
            }
            for number, pieces in groupby(enumerate(replay.pieces), key=lambda each: each[1].round)
        ],
    }
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    page = _PAGE.read_text(encoding="utf-8")
    return page.replace(_EMPTY, _EMPTY.replace("{}", text))
