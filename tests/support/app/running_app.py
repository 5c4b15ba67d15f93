"""The app as it is run, with someone who asks one thing after another, and an engine that plays.

Run as a process of its own, to be killed: `python -m tests.support.app.running_app HOME SPEED`.
One line of JSON for everything that was acknowledged: a message that is in the store, of which id,
and the text that must be there from now on.
"""

import json
import os
import sys
from pathlib import Path

from PySide6.QtCore import QTimer

from app import commands
from app.engine_client import engine_process
from app.start import run_window
from models.answers import ANSWERS, Opened
from models.files import HOME_VARIABLE

CHARACTERS = 2500
_ASK_MS = 30


def tell(kind, id, content):
    """In one write, as it comes from two threads."""
    os.write(1, (json.dumps({"kind": kind, "id": id, "content": content}) + "\n").encode())


def ask_on(window):
    """Begin, and ask whenever nothing is being written."""
    acknowledged = set()

    def look(kept):
        for message in window.conversation.branch:
            if message.role == "user" and message.id not in acknowledged:
                acknowledged.add(message.id)
                tell("complete", message.id, message.content)

    def ask():
        if window.loader.loaded is not None and not window.conversation.busy:
            window.composer.set_text(f"question {os.getpid()}.{len(acknowledged)} " * 20)
            window.composer.send()

    def tell_end(message):
        tell(message.state, message.id, message.content)

    tell_flushes(window)
    window.answers.begun.connect(lambda writing: tell("streaming", writing.message.id, ""))
    window.answers.saved.connect(tell_end)
    window.begin()
    window.new()
    window.conversation.changed.connect(look)
    timer = QTimer(window, interval=_ASK_MS)
    timer.timeout.connect(ask)
    timer.start()
    tell("opened", 0, window.store.notice or "")


def tell_flushes(window):
    """Tell what was flushed, once that is on the disk."""
    flush = window.store.flush_answer

    def flush_and_tell(id, content, events, **options):
        def tell_it(future):
            if future.exception() is None:
                tell("streaming", id, content)

        done = flush(id, content, events, **options)
        done.add_done_callback(tell_it)
        return done

    setattr(window.store, "flush_answer", flush_and_tell)  # noqa: B010


def main(home, speed):
    os.environ[HOME_VARIABLE] = str(home)
    play = (sys.executable, "-m", "tests.support.app.streaming_host", str(CHARACTERS), speed)
    engine_process.host_command = lambda target="": play
    opened = ANSWERS.to_json(Opened("/models/tiny"))
    # The real one outlives a kill for a moment; further words are nothing to this one.
    commands.models_command = lambda: ("printf", opened)
    return run_window(["app"], begin=ask_on)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
