"""Chat templates that came with a model: what they may take; a good one is not in the way."""

import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import load as load_tokenizer

from engine.request import ChatMessage
from engine.template import render
from models.errors import Problem
from tests.support.engine.tiny import byte_tokenizer

QUESTION = [ChatMessage("user", "why?")]
LOOP = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"
DOUBLING = (
    "{% set it = namespace(s='a') %}{% for i in range(60) %}"
    "{% set it.s = it.s ~ it.s %}{% endfor %}{{ it.s }}"
)


@pytest.fixture(autouse=True)
def limits_are_put_back() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGPROF)
    yield
    after = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGPROF)
    assert after == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


def _with_template(tokenizer: Any, template: str) -> Any:
    tokenizer.chat_template = template
    return tokenizer


@pytest.fixture
def own_tokenizer(tmp_path: Path) -> Any:
    """One whose template may be changed."""
    byte_tokenizer(tmp_path)
    return load_tokenizer(tmp_path, eos_token_ids=[256])


@pytest.mark.parametrize("template", [LOOP, "{{ 9 ** (9 ** 9) }}"], ids=["a loop", "a power"])
def test_one_that_does_not_end(own_tokenizer: Any, template: str) -> None:
    with pytest.raises(Problem) as raised:
        render(_with_template(own_tokenizer, template), QUESTION, seconds=0.05)
    assert "does not end" in raised.value.message
    assert "another model" in raised.value.remedy


@pytest.mark.parametrize(
    "template", [DOUBLING, "{{ 'a' * 10 ** 12 }}"], ids=["bit by bit", "at once"]
)
def test_one_that_fills_the_memory(own_tokenizer: Any, template: str) -> None:
    with pytest.raises(Problem) as raised:
        render(_with_template(own_tokenizer, template), QUESTION, more_bytes=100_000_000)
    assert "memory" in raised.value.message


def test_one_that_writes_a_book(own_tokenizer: Any) -> None:
    template = "{% for i in range(2000) %}{{ 'all work and no play ' * 100 }}{% endfor %}"
    with pytest.raises(Problem) as raised:
        render(_with_template(own_tokenizer, template), QUESTION)
    assert "4,200,000 characters" in raised.value.message


def test_a_long_conversation_is_rendered_whole(own_tokenizer: Any) -> None:
    said = [ChatMessage("user" if i % 2 == 0 else "assistant", "word " * 5000) for i in range(101)]
    text = render(own_tokenizer, said)
    assert text.count("word") == 101 * 5000


def test_a_last_message_of_the_assistant_is_gone_on_with(own_tokenizer: Any) -> None:
    text = render(own_tokenizer, [*QUESTION, ChatMessage("assistant", "Because")])
    assert text.endswith("Because")
