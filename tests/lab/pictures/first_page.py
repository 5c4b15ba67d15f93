"""Records the rounds that the first page shows: the starter pair's own, of the first
sentence of a real answer.

    python -m tests.lab.pictures.first_page resources/first_page.json [QUESTION]

Takes the starter's weights from where they lie. The answer is greedy, so that the same machine
gives the same rounds again.
"""

import json
import os
import sys
import tempfile
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from app.models.target_process import open_target

from app.chat.conversation import DEFAULTS
from app.commands import CommandRunner
from app.conversations.records import settings_to_json
from app.engine_client.engine_process import host_command
from app.models.formatting import target_name
from app.rounds.trace import Trace
from app.start import make_application
from app.welcome import EXAMPLES
from engine.request import Sampling
from models.files import HOME_VARIABLE, models_folder
from tests.lab.pictures.real_pair import until
from tests.support.app.window_maker import make_window

_TOKENS = 120  # of the answer: more than the page shows


def main(file: Path, question: str) -> None:
    """Write the rounds of the answer to `question` to `file`."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    weights = models_folder()
    application = make_application(["first page"])
    with tempfile.TemporaryDirectory() as home:
        os.environ[HOME_VARIABLE] = home
        (Path(home) / "models").symlink_to(weights)
        window = make_window(
            application,
            Path(home),
            host_command(),
            opening=open_target,
            commands=CommandRunner(),
        )
        greedy = replace(DEFAULTS, sampling=Sampling(), max_tokens=_TOKENS)
        window.settings.new_settings = settings_to_json(greedy)
        window.show()
        window.begin()
        until(lambda: window.loader.loaded is not None)
        window.composer.set_text(question)
        window.composer.send()
        until(lambda: window.answers.busy)
        until(lambda: not window.answers.busy and window.rounds.scrubber.events)
        target, drafter = window.loader.names
        trace = Trace(window.rounds.scrubber.events)
        window.close()
    rounds: list[list[list[str]]] = []
    for _, pieces in groupby(trace.pieces, key=lambda piece: piece.round):
        shown = list(pieces)
        rounds.append([[piece.kind, piece.text] for piece in shown])
        if any(piece.written and piece.text == "." for piece in shown):
            break  # the first sentence is enough
    recorded = {
        "what": "The rounds of a real answer, recorded by tests/lab/pictures/first_page.py",
        "question": question,
        "target": target_name(target),
        "drafter": drafter,
        "rounds": rounds,
    }
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in rounds)
    head = json.dumps({**recorded, "rounds": []}, ensure_ascii=False, indent=1)
    file.write_text(head.replace('"rounds": []', f'"rounds": [\n{lines}\n]') + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else EXAMPLES[2][1])
