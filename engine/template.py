"""A model's chat template turns messages into the text of a prompt.

It is a program that came with the model, in Jinja's sandbox: it can reach nothing, but it could
loop for ever or fill the memory. So its time and its memory are limited.
"""

import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from engine.request import ChatMessage
from models.errors import Problem
from models.in_words import size

SECONDS = 5.0  # of the processor; templates take milliseconds
MORE_BYTES = 1_000_000_000
MORE_CHARACTERS = 1 << 20  # than twice what the messages have; tool descriptions have thousands
_REMEDY = "Choose another model, or mend the chat template in its folder."


class _TooLong(BaseException):
    """The time is over. No Exception, so that no filter takes it for an error of its own."""


def render(
    tokenizer: Any,
    messages: Sequence[ChatMessage],
    *,
    seconds: float = SECONDS,
    more_bytes: int = MORE_BYTES,
) -> str:
    """The prompt, by the tokenizer's template. The assistant's last message is continued.

    Raises Problem where the template refuses the messages, or takes more than `seconds` of the
    processor or `more_bytes` of memory. Only in the main thread is the time limited, and only on
    Linux the memory.
    """
    going_on = bool(messages) and messages[-1].role == "assistant"
    try:
        with _limited_memory(more_bytes), _limited_time(seconds):
            text: str = tokenizer.apply_chat_template(
                [{"role": m.role, "content": m.content} for m in messages],
                add_generation_prompt=not going_on,
                continue_final_message=going_on,
                tokenize=False,
            )
    except _TooLong:
        raise Problem(
            f"The model's chat template does not end: it was stopped after {seconds:g} seconds.",
            _REMEDY,
        ) from None
    except MemoryError:
        raise Problem(
            f"The model's chat template wants more than {size(more_bytes)} of memory.",
            _REMEDY,
        ) from None
    except Exception as error:  # whatever the program raises
        reason = " ".join(str(error).split()).rstrip(".")
        raise Problem(
            f"The model's chat template refuses these messages: {reason}.",
            "Start with a user message, and let user and assistant take turns.",
        ) from error
    given = sum(len(message.content) for message in messages)
    if len(text) > 2 * given + MORE_CHARACTERS:
        raise Problem(
            f"The model's chat template makes {len(text):,} characters of {given:,}.", _REMEDY
        )
    return text


@contextmanager
def _limited_time(seconds: float) -> Iterator[None]:
    """Raises `_TooLong` inside. By a signal, which arithmetic on huge numbers looks for too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def expire(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGPROF, expire)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        try:
            signal.setitimer(signal.ITIMER_PROF, 0)  # it may come right here, the last time
        finally:
            signal.signal(signal.SIGPROF, before)


@contextmanager
def _limited_memory(more_bytes: int) -> Iterator[None]:
    """Makes allocations fail, with a MemoryError, where this process grows by more than that."""
    if not sys.platform.startswith("linux"):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:
        held = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    lowest = min((held + more_bytes, *(one for one in (soft, hard) if one >= 0)))
    resource.setrlimit(resource.RLIMIT_AS, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
