"""Draws the window in its chief states and saves the pictures, light and dark.

    make pictures-of-states ARGS="FOLDER [--only conversation ...] [--scale 2]"

Needs no model and no display.
"""

import os
import tempfile
from argparse import ArgumentParser
from pathlib import Path

from PySide6.QtTest import QTest

from app.start import make_application
from tests.lab.pictures.states import STATES, Stage


def main(states, *, scale="1"):
    options = ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("--only", nargs="+", default=list(states), choices=states)
    options.add_argument("--scale", default=scale)
    chosen = options.parse_args()
    screen = Path(__file__).with_name("screen.json")  # in Qt's own, dialogs are cut
    os.environ.setdefault("QT_QPA_PLATFORM", f"offscreen:configfile={screen}")
    os.environ["QT_SCALE_FACTOR"] = chosen.scale
    chosen.folder.mkdir(parents=True, exist_ok=True)
    application = make_application(["pictures"])
    for dark in (False, True):
        for state in chosen.only:
            with tempfile.TemporaryDirectory() as home:
                for name, shown in states[state](Stage(application, Path(home), dark)):
                    # A moment of an answer is over soon; the words after it come within a frame.
                    QTest.qWait(40 if name.startswith("stream-") else 500)
                    shown.grab().save(f"{chosen.folder}/{name}-{'dark' if dark else 'light'}.png")


if __name__ == "__main__":
    main(STATES)
