"""Sessions whose prompts are kept on disk in short blocks, and the answers of a checked one."""

import itertools
from dataclasses import replace

from engine.conversation.kept_blocks import KeptBlocks
from engine.conversation.session import Session
from engine.core.cache import QuantizedCaches
from engine.core.decoder import Decoder
from engine.core.loop import alone
from engine.draft_length.policy import Fixed
from engine.drafters.copying import LookupDrafter
from engine.request import ChatMessage, Prompt, Request, Sampling, chat
from tests.support.engine.helpers import assert_as_fresh
from tests.support.engine.sessions import check_laws

ROWS = 16
A, B = "a" * 64, "b" * 64
DOCUMENT = [65 + 7 * i % 26 for i in range(5 * ROWS + 3)]  # and five whole blocks
GREEDY = Request(sampling=Sampling(), max_tokens=6, keep_as=(A,))
SAMPLED = replace(GREEDY, sampling=Sampling(temperature=1.0, seed=5))
QUANTIZED = QuantizedCaches(bits=8, group_size=32, start=3 * ROWS + 5)


STATES = ["gemma3_text", "qwen3_5", "lfm2", "mamba"]  # windows of 16 tokens; recurrent layers


def new(target, folder, *, quantized=None):
    """A session of a process that has read nothing yet."""
    kept = None if folder is None else KeptBlocks(folder, most_bytes=1 << 30)
    session = Session(target, kept=kept, quantized=quantized)
    session.drafter, session.policy = LookupDrafter(), Fixed(3)
    return session


def answer(session, prompt, request=GREEDY, *, said=None):
    """The events, their laws and the caches checked, then what is to be kept is kept. `said`: the
    chat, in place of its tokens."""
    begun = session.prepare(said or Prompt(tokens=tuple(prompt)), request)
    events = list(alone(session.decoder, session.begin(begun)))
    check_laws(events, session.target.tokenizer)
    check(session)
    if session.keep():
        while session.keep():
            pass
        check(session)
    return events


def check(session):
    decoder = session.decoder
    fresh = Decoder(decoder.model, quantized=decoder.timeline.quantized, block=decoder.block)
    assert_as_fresh(decoder, session._tokens, fresh)


def files(folder):
    return sorted(folder.glob("*/*.safetensors"))


INSTRUCTED = replace(GREEDY, keep_as=(), keep_instructions=True)
SYSTEM = ChatMessage("system", "Answer in as few words as you can. " * 2)
BEGINNING = (1 + len(SYSTEM.content) + 1) // ROWS  # in whole blocks, with the roles


def ask(session, *said, system=SYSTEM, tools=""):
    """As `answer`, for a chat behind instructions."""
    roles = itertools.cycle(("user", "assistant"))
    messages = [system, *(ChatMessage(role, text) for role, text in zip(roles, said, strict=False))]
    prompt = replace(chat(messages), tools=tools)
    return answer(session, (), INSTRUCTED, said=prompt)
