"""Writes chats as fast as the disk takes them, and tells each write once it was acknowledged.

Run as a process of its own, to be killed: `python -m tests.support.app.writing_child FILE`.
One line of JSON each: what was written, of which id, and the content that must be there from now
on.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from app.conversations.store import Store
from tests.support.app.store_samples import round_of


def tell(kind, id, content):
    sys.stdout.write(json.dumps({"kind": kind, "id": id, "content": content}) + "\n")
    sys.stdout.flush()


def main(path):
    now = datetime(2026, 5, 9, tzinfo=UTC)

    def clock():
        nonlocal now
        now += timedelta(minutes=10)  # so that backups are due, and killed too
        return now

    store = Store.open(path, clock=clock)
    tell("opened", 0, store.notice or "")
    chat = None
    for number in count():
        asked = store.ask(chat, f"question {number} " * 20, target="t", drafter="d")
        _, (*_, question, answer) = asked.result()
        chat = question.conversation
        tell("complete", question.id, question.content)
        tell("streaming", answer.id, "")
        content = ""
        events = []
        for flush in range(4):
            events.extend(round_of(flush))
            content += f"part {flush} " * 50
            store.flush_answer(answer.id, content, events).result()
            tell("streaming", answer.id, content)
        store.finish_answer(answer.id, content, events, state="complete").result()
        tell("complete", answer.id, content)
        store.back_up_if_due().result()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
