"""A server that drafts writes the text of plain decoding, alone and side by side."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from httpx2 import Client

from engine.conversation.loading import load
from engine.conversation.session import ChatMessage, Session
from engine.events import Text
from engine.request import Request, Sampling
from models.model_folder import inspect

STORIES = Path(__file__).parents[1] / "data" / "stories260K"
QUESTIONS = ("Once upon a time", "The dog saw a ball", "Lily and her mom went to the park. Lily")


@contextmanager
def serving(*words):
    command = [sys.executable, "-m", "engine", "serve", "--port", "0", "--target", str(STORIES)]
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            place = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            with Client(base_url=place[0], timeout=240) as client:
                yield client
        finally:
            process.terminate()


def greedy(client, question):
    """The whole answer, as JSON."""
    message = {"role": "user", "content": question}
    body = {"model": "any", "messages": [message], "temperature": 0, "max_tokens": 60}
    answer = client.post("/v1/chat/completions", json=body).json()
    return answer


def plain():
    """The answers without drafts and without a server."""
    request = Request(sampling=Sampling(temperature=0), max_tokens=60)
    session = Session(load(inspect(STORIES)))
    return [
        "".join(
            event.delta for event in session.answer([question], request) if isinstance(event, Text)
        )
        for question in (ChatMessage("user", text) for text in QUESTIONS)
    ]


def texts(answers):
    return [answer["choices"][0]["message"]["content"] for answer in answers]


def test_greedy_text_does_not_depend_on_drafts():
    expected = plain()
    assert all(len(text) > 40 for text in expected)
    with serving("--drafter", "suffix+early-exit", "--draft-length", "4") as client:
        drafted = [greedy(client, question) for question in QUESTIONS]
        with ThreadPoolExecutor(len(QUESTIONS)) as pool:
            together = list(pool.map(lambda question: greedy(client, question), QUESTIONS))
    for answers in (drafted, together):
        drafts = [answer["usage"]["slipstream"] for answer in answers]
        assert all(0 < draft["accepted"] < draft["drafted"] for draft in drafts)
        assert texts(answers) == expected
