"""Values that several tests of the conversations need."""

import io
import sqlite3
import zipfile
from contextlib import closing, contextmanager

from engine.events import Draft, DraftedToken, Span, Text, TokenVerdict, Verdict, WrittenToken


def round_of(number, text="token "):
    """The events of one round of a drafted token, a correction and the text of both."""
    return (
        Draft("g", number, (DraftedToken(7, text, 0.5),), "lookup"),
        Verdict(
            generation="g",
            round=number,
            accepted=1,
            judgements=(TokenVerdict(0.25, 0.5),),
            next=WrittenToken(9, text, 0.125, "bonus"),
            draft_seconds=0.001,
            verify_seconds=0.01,
            seconds=0.011,
            reason="fixed",
        ),
        Text("g", text * 2, (Span(number, 0, len(text)), Span(number, 1, len(text)))),
    )


def asked(store, content="Why is the sky blue?"):
    """A user's message in a new conversation."""
    return store.say(store.create().result().id, content).result()


def answered(store, question, content="Because."):
    """A complete answer to `question`."""
    answer = store.begin_answer(question.id, target="Qwen3", drafter="lookup").result()
    return store.finish_answer(answer.id, content, round_of(0), state="complete").result()


def contents(messages):
    return [message.content for message in messages]


@contextmanager
def raw(path):
    """The file as it is, behind the store's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def zipped(files):
    """A .zip of these files, by name."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()
