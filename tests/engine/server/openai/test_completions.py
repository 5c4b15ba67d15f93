"""Completions: texts and ids, log probabilities, gaps."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.events import (
    Done,
    Prefill,
    Span,
    Stats,
    Text,
    TokenLogprob,
    Verdict,
    WrittenToken,
)
from engine.process.protocol import Generate
from engine.request import Prompt
from tests.support.engine.asking import asking, events, run
from tests.support.engine.scripted_host import Script, Step, script

PATH = "/v1/completions"


def saying(*texts: str, **how: Any) -> Script:
    def play(command: Generate) -> Iterator[Step]:
        return script(*texts, id=command.id, request=command.request, **how)

    return play


async def sent(body: dict[str, Any], play: Script | None = None) -> tuple[Any, list[Generate]]:
    async with asking(play or saying("Hi")) as (client, host):
        response = await client.post(PATH, json=body)
        assert response.status_code == 200, response.text
        return response, [command for command in host.taken if isinstance(command, Generate)]


def test_a_text_is_continued() -> None:
    response, (generate,) = run(sent({"prompt": "Once"}, saying(" upon", " a")))
    answer = response.json()
    assert answer["object"] == "text_completion"
    assert answer["choices"] == [
        {"index": 0, "text": " upon a", "logprobs": None, "finish_reason": "stop"}
    ]
    assert generate.prompt == Prompt(text="Once")
    assert generate.request.max_tokens == 16
    streamed, _ = run(sent({"prompt": "Once", "stream": True}, saying(" upon", " a")))
    assert [chunk["choices"][0]["text"] for _, chunk in events(streamed)[:-1]] == [
        " upon",
        " a",
        "",
    ]


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("a", [Prompt(text="a")]),
        (["a", "b"], [Prompt(text="a"), Prompt(text="b")]),
        ([1, 2], [Prompt(tokens=(1, 2))]),
        ([[1, 2], [3]], [Prompt(tokens=(1, 2)), Prompt(tokens=(3,))]),
    ],
)
def test_prompts_are_texts_or_ids(prompt: Any, prompts: list[Prompt]) -> None:
    def play(command: Generate) -> Iterator[Step]:
        said = command.prompt.text or str(command.prompt.tokens)
        return script(said, id=command.id)

    response, _ = run(sent({"prompt": prompt, "n": 2}, play))
    choices = response.json()["choices"]
    assert [choice["index"] for choice in choices] == list(range(2 * len(prompts)))
    said = [one.text or str(one.tokens) for one in prompts for _ in range(2)]
    assert [choice["text"] for choice in choices] == said
    assert response.json()["usage"]["prompt_tokens"] == 5 * len(prompts)


def test_a_token_that_ends_the_text_is_among_the_scored_ones() -> None:
    def play(command: Generate) -> Iterator[Step]:
        yield Prefill(command.id, 1, 1, 0, 0.0)
        own = WrittenToken(0, "", 1.0, "plain")
        score = TokenLogprob(0, tuple(b"</s>"), -3.0)
        yield Verdict(command.id, 0, 0, (), own, 0.0, 0.0, 0.0, "", logprobs=(score,))
        yield Text(command.id, "", (Span(0, 0, 0),))
        yield Done(command.id, "stop", Stats())

    response, _ = run(sent({"prompt": "a", "logprobs": 1}, play))
    (choice,) = response.json()["choices"]
    assert (choice["text"], choice["logprobs"]["tokens"]) == ("", ["</s>"])


@pytest.mark.parametrize(
    ("tokens", "prompt"),
    [
        (
            ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>"],
            "<|fim_prefix|>a@<|fim_suffix|>b<|fim_middle|>",
        ),
        (
            ["<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>"],
            "<fim_prefix>a@<fim_suffix>b<fim_middle>",
        ),
        (["▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>"], "<PRE> a@ <SUF>b <MID>"),
        (
            ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
            "<｜fim▁begin｜>a@<｜fim▁hole｜>b<｜fim▁end｜>",
        ),
        (["[SUFFIX]", "[PREFIX]"], "[SUFFIX]b[PREFIX]a@"),
    ],
)
def test_a_gap_is_written_as_the_model_knows_it(
    tmp_path: Path, tokens: list[str], prompt: str
) -> None:
    _write_tokenizer(tmp_path, tokens)

    async def ask() -> None:
        async with asking(saying("x"), target=str(tmp_path)) as (client, host):
            body = {"prompt": "a@", "suffix": "b", "stop": ["\n"]}
            response = await client.post(PATH, json=body)
            assert response.json()["choices"][0]["text"] == "x"
            (generate,) = [one for one in host.taken if isinstance(one, Generate)]
            assert generate.prompt == Prompt(text=prompt)
            assert generate.request.special
            assert "\n" in generate.request.stops
            known = {token.removeprefix("▁") for token in tokens}
            assert set(generate.request.stops) <= {"\n", *known}
            assert len(generate.request.stops) == 2 or len(tokens) != 4

    run(ask())


def test_a_model_without_such_tokens_fills_no_gaps(tmp_path: Path) -> None:
    _write_tokenizer(tmp_path, ["<|im_start|>"])

    async def ask() -> None:
        async with asking(saying("x"), target=str(tmp_path)) as (client, _):
            response = await client.post(PATH, json={"prompt": "a", "suffix": "b"})
            assert response.status_code == 400
            assert response.json()["error"]["param"] == "suffix"

    run(ask())


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": ["a"] * 129}, "prompt"),
        ({"prompt": [260]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": "a", "best_of": 3}, "best_of"),
        ({"prompt": "a", "n": 2, "best_of": 3, "stream": True}, "best_of"),
        ({"prompt": "a", "logprobs": True}, "logprobs"),
        ({"prompt": "a", "logprobs": 21}, "logprobs"),
        ({"prompt": "a", "max_tokens": -2}, "max_tokens"),
        ({"prompt": [97], "suffix": "b"}, "prompt"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "a", "echo": True}, "echo"),
        ({"prompt": "a", "prompt_logprobs": 0}, "prompt_logprobs"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(body: dict[str, Any], param: str) -> None:
    async def ask() -> None:
        async with asking() as (client, host):
            response = await client.post(PATH, json=body)
            assert response.status_code == 400
            assert (response.json()["error"]["param"] or "").split("[")[0] == param
            assert not any(isinstance(command, Generate) for command in host.taken)

    run(ask())


def _write_tokenizer(folder: Path, added: list[str]) -> None:
    document = {
        "model": {"vocab": {"a": 0, "b": 1}, "merges": []},
        "added_tokens": [{"id": 2 + n, "content": token} for n, token in enumerate(added)],
    }
    (folder / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
