"""An answer that calls tools in several steps: drafts change none of its tokens, each step reads
new rows only, and calls are held to their schemas.

The targets are tiny and random. A bias makes them call a tool at the beginning of a step, and the
grammar of its calls makes that a call; results are scripted, and copies from them are drafted.
"""

import json
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from engine.conversation.session import Session
from engine.core.loop import alone
from engine.events import Draft, Event, Prefill, Text, stretches_of
from engine.request import ChatMessage, Prompt, Request, Sampling
from engine.tools.steps import Step, StepCall, messages_of
from engine.tools.turn import asked_calls
from tests.support.engine.sessions import done_of, loaded, text_of, tokens_of, use
from tests.support.engine.tiny import shallow
from tests.support.engine.tool_steps import tokenizer_of
from tests.support.mostly_slow import mostly_slow

TEMPLATE = Path(__file__).parents[1] / "data" / "templates" / "hermes.jinja"
ARCHITECTURES = ("llama", "gemma3_text", "qwen3_5", "lfm2")
KINDS = ("none", "model", "lookup", "suffix", "cascade", "trees")
VOCABULARY = 272
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Rome", "Vienna", "Oslo", "Turin"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 99},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
FUNCTION = {"name": "look_up", "parameters": SCHEMA, "strict": True}
TOOLS = json.dumps([{"type": "function", "function": FUNCTION}])
RESULTS = (
    "Rain in the morning, then sun; wind from the west. " * 4,
    "The sun rises at six and sets at nine. " * 5,
)
ASKED = ChatMessage("user", "Is it sunny?")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """With tokens of their own for the marks of a call."""
    return tokenizer_of(
        TEMPLATE.read_text(encoding="utf-8"),
        tmp_path_factory.mktemp("hermes"),
        ends=["<|im_end|>"],
        special=["<|im_start|>"],
        added=["<tool_call>", "</tool_call>"],
    )


def session_of(tokenizer, architecture, kind):
    target = loaded(shallow(architecture, vocabulary=VOCABULARY), tokenizer)
    session = Session(replace(target, ends=frozenset(tokenizer.eos_token_ids)))
    return use(session, kind, architecture, length=3)


@dataclass(frozen=True)
class Generation:
    """A step: the tokens of its prompt, those that were written, the events."""

    prompt: list[int]
    written: list[int]
    events: list[Event]

    @property
    def read(self):
        return next(event for event in self.events if isinstance(event, Prefill))


def in_steps(tokenizer, session_for):
    """The generations of an answer with two calls, a step at a time. In the last the model would
    call again, or end, and may not."""
    call, end = (tokenizer.convert_tokens_to_ids(name) for name in ("<tool_call>", "<|im_end|>"))
    content, steps, stretches = "", [], []
    for number in range(3):
        last = number == 2
        sampling = Sampling(
            logit_bias={end: 70.0, call: 60.0},
            presence_penalty=0.0 if last else 55.0,
            penalty_window=150,
        )
        most = 24 if last else 200
        request = Request(sampling=sampling, max_tokens=most, may_call=not last)
        messages = messages_of(content, stretches, steps) if steps else ()
        prompt = Prompt(messages=(ASKED, *messages), tools=TOOLS)
        session = session_for()
        answer = session.prepare(prompt, request, generation=f"g{number}")
        events = list(alone(session.decoder, session.begin(answer)))
        yield Generation(list(answer.tokens), tokens_of(events), events)
        content += text_of(events)
        stretches += stretches_of(events)
        pieces = [piece for event in events if isinstance(event, Text) for piece in event.calls]
        calls = asked_calls(pieces, id=f"g{number}")
        if last:
            assert call not in tokens_of(events)
            assert text_of(events).strip()
        else:
            assert done_of(events).reason == "stop", text_of(events)
            (asked,) = calls
            arguments = json.loads(asked.arguments)
            assert asked.name == "look_up"
            assert arguments["city"] in SCHEMA["properties"]["city"]["enum"]
            done = StepCall(asked.id, asked.name, asked.arguments, result=RESULTS[number])
            steps.append(Step(len(content), (done,)))


@cache
def plain_of(tokenizer, architecture):
    """With a session for each step, which has read nothing before."""
    steps = in_steps(tokenizer, lambda: session_of(tokenizer, architecture, "none"))
    return [step.written for step in steps]


MATRIX = [f"{architecture} {kind}" for architecture in ARCHITECTURES for kind in KINDS]


@pytest.mark.cpu
@pytest.mark.parametrize("case", mostly_slow(MATRIX, quick=["llama suffix"]))
def test_drafts_change_no_step_and_each_reads_new_rows_only(tokenizer, case):
    architecture, kind = case.split()
    expected = plain_of(tokenizer, architecture)
    session = session_of(tokenizer, architecture, kind)
    steps = list(in_steps(tokenizer, lambda: session))
    assert [step.written for step in steps] == expected
    drafted = [event for step in steps for event in step.events if isinstance(event, Draft)]
    assert bool(drafted) == (kind != "none")
    for before, step in pairwise(steps):
        known = [*before.prompt, *before.written]
        assert step.prompt[: len(known)] == known
        assert len(known) - step.read.reused <= 1  # the token that ended it may not be read yet
