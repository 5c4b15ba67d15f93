"""A window in a process of its own, to be killed: it asks, and its answer never ends.

    python -m tests.app.streaming_window FOLDER EVENTS

Prints the answer's text each time that it is known to be on the disk.
"""

import sys
from pathlib import Path

from PySide6.QtCore import QTimer

from app.start import make_application
from tests.app.window_maker import fake_host, make_window


def main() -> None:
    folder, events = Path(sys.argv[1]), sys.argv[2]
    application = make_application(["window"])
    pieces = " ".join(f"part:{count}:{events}" for count in (5, 9, 14, 20))
    window = make_window(
        application, folder, fake_host(folder, f"ready take load take {pieces} hang")
    )
    told = ""

    def flush() -> None:
        nonlocal told
        writing = window.conversation.writing
        if writing is None:
            return
        if writing.saved == len(writing.events) and writing.text != told:
            told = writing.text
            print(repr(told), flush=True)
        window.answers.flush()

    timer = QTimer(interval=5)
    timer.timeout.connect(flush)
    timer.start()
    window.show()
    window.begin()
    window.composer.set_text("Tell me a story.")
    window.composer.send()
    application.exec()


if __name__ == "__main__":
    main()
