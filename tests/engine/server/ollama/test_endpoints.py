"""Ollama's endpoints: chats and texts, streamed and whole, and the models that are loaded."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from httpx2 import Response

from engine.process.protocol import Generate
from engine.request import ChatMessage, Grammar
from engine.server import answers
from tests.support.engine.asking import asking, run
from tests.support.engine.scripted_host import LOADED, Script, Step, script

HELLO = [{"role": "user", "content": "hello"}]
TEMPLATE = "{{ tools }} <tool_call>{...}</tool_call> <think></think>"
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "é"}}\n</tool_call>'


@pytest.fixture
def thinker(tmp_path: Path) -> str:
    """The folder of a model that reasons and calls as Qwen3 does."""
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return str(tmp_path)


def saying(*texts: str, **how: Any) -> Script:
    def play(command: Generate) -> Iterator[Step]:
        return script(*texts, id=command.id, request=command.request, **how)

    return play


def sent(
    path: str, body: dict[str, Any], play: Script | None = None, *, target: str = LOADED.target
) -> tuple[Response, Generate | None]:
    """The response, and what the engine was asked for."""

    async def ask() -> tuple[Response, Generate | None]:
        async with asking(play or saying("Hi"), target=target) as (client, host):
            response = await client.post(f"/api/{path}", json=body)
            asked = [command for command in host.taken if isinstance(command, Generate)]
            return response, asked[0] if asked else None

    return run(ask())


def lines(response: Response) -> list[dict[str, Any]]:
    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.text.endswith("\n")
    return [json.loads(line) for line in response.text.splitlines()]


def request_of(path: str, body: dict[str, Any]) -> Generate:
    response, generate = sent(path, body)
    assert response.status_code == 200, response.text
    assert generate is not None
    return generate


def test_a_chat_is_streamed_unless_it_says_otherwise() -> None:
    streamed = lines(sent("chat", {"model": "tiny", "messages": HELLO}, saying("Hel", "lo"))[0])
    *parts, last = streamed
    assert [part["message"]["content"] for part in parts] == ["Hel", "lo"]
    assert {part["done"] for part in parts} == {False}
    assert last["message"] == {"role": "assistant", "content": ""}
    assert (last["done"], last["done_reason"]) == (True, "stop")
    assert (last["prompt_eval_count"], last["eval_count"]) == (5, 4)
    for name in ("total_duration", "prompt_eval_duration", "eval_duration"):
        assert last[name] > 0
    body = {"messages": HELLO, "stream": False}
    whole = sent("chat", body, saying("Hel", "lo"))[0].json()
    assert whole["message"] == {"role": "assistant", "content": "Hello"}
    assert {*whole} == {*last}


def test_a_text_is_answered_continued_or_filled_in(tmp_path: Path) -> None:
    streamed = lines(sent("generate", {"prompt": "hello", "system": "Be brief."})[0])
    assert [part["response"] for part in streamed] == ["Hi", ""]
    asked = request_of("generate", {"prompt": "hello", "system": "Be brief."})
    assert asked.prompt.messages == (
        ChatMessage("system", "Be brief."),
        ChatMessage("user", "hello"),
    )
    assert request_of("generate", {"prompt": "hel", "raw": True}).prompt.text == "hel"
    response, _ = sent("generate", {"prompt": "a", "suffix": "b"})
    assert (response.status_code, "gaps" in response.json()["error"]) == (400, True)
    marks = [{"content": f"<|fim_{name}|>"} for name in ("prefix", "suffix", "middle")]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": marks}))
    _, gap = sent("generate", {"prompt": "a", "suffix": "b"}, target=str(tmp_path))
    assert gap is not None
    assert gap.prompt.text == "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>"


def test_thinking_and_calls_have_fields_of_their_own(thinker: str) -> None:
    play = saying("<think>Hm.</think>", "So.", CALL[:20], CALL[20:])
    body = {"messages": HELLO, "tools": TOOLS, "think": True}
    parts = lines(sent("chat", body, play, target=thinker)[0])
    assert "".join(part["message"].get("thinking", "") for part in parts) == "Hm."
    assert "".join(part["message"]["content"] for part in parts) == "So."
    (call,) = [call for part in parts for call in part["message"].get("tool_calls", ())]
    assert call["function"] == {"name": "f", "arguments": {"a": "é"}}
    assert parts[-1]["done_reason"] == "stop"
    whole = sent("chat", body | {"stream": False}, play, target=thinker)[0].json()["message"]
    assert (whole["thinking"], whole["content"]) == ("Hm.", "So.")
    assert [one["function"] for one in whole["tool_calls"]] == [call["function"]]


def test_whether_to_think() -> None:
    for think, thinking in ((True, "on"), (False, "off"), ("low", "low"), (None, "")):
        asked = request_of("chat", {"messages": HELLO, "think": think})
        assert asked.request.thinking == thinking


def test_forms() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "not": {}}}}
    for form, source in (
        ("json", {"type": "object"}),
        (schema, {"type": "object", "properties": {"a": {"type": "string"}}}),
    ):
        asked = request_of("chat", {"messages": HELLO, "format": form})
        assert asked.request.grammar == Grammar("json schema", json.dumps(source))
    for form in ("", None):
        assert request_of("chat", {"messages": HELLO, "format": form}).request.grammar is None


def test_options_get_to_the_engine() -> None:
    options = {
        "num_predict": 9, "num_ctx": 32768, "temperature": 0.5, "top_k": 7, "top_p": 0.9,
        "min_p": 0.1, "seed": 5, "stop": ["x"], "repeat_penalty": 1.2, "repeat_last_n": 33,
        "num_gpu": 1, "num_thread": 8, "typical_p": 1.0, "mirostat": 0, "num_keep": 4,
    }  # fmt: skip
    request = request_of("generate", {"prompt": "a", "options": options}).request
    sampling = request.sampling
    assert sampling is not None
    assert (request.max_tokens, request.stops) == (9, ("x",))
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.5, 7, 0.9)
    assert (sampling.min_p, sampling.seed, sampling.repeatable) == (0.1, 5, True)
    assert (sampling.repetition_penalty, sampling.penalty_window) == (1.2, 33)
    free = request_of("generate", {"prompt": "a", "options": {"num_predict": -1, "seed": -1}})
    assert free.request.max_tokens == LOADED.context_length
    assert free.request.sampling == LOADED.sampling


def test_a_context_that_a_client_reckons_with() -> None:
    """One as long or shorter is there, and limits an answer without a limit; a longer one ends at
    the model's."""
    for options, most in (
        ({"num_ctx": 64}, 64),
        ({"num_ctx": 64, "num_predict": -1}, 64),
        ({"num_ctx": 64, "num_predict": 200}, 200),
        ({"num_ctx": 0}, LOADED.context_length),
        ({"num_ctx": 1 << 20}, LOADED.context_length),
    ):
        asked = request_of("chat", {"messages": HELLO, "options": options}).request
        assert asked.max_tokens == most, options
    refused, _ = sent("chat", {"messages": HELLO, "options": {"num_ctx": "many"}})
    assert refused.status_code == 400


def test_a_prompt_that_is_too_long_says_so_of_the_context_too() -> None:
    for wanted, said in ((None, False), (LOADED.context_length, False), (1 << 20, True)):
        body = {"messages": HELLO, "options": {"num_ctx": wanted}}
        whole, _ = sent("chat", body | {"stream": False}, saying(then="too long"))
        assert whole.status_code == 400
        assert ("num_ctx" in whole.json()["error"]) == said
        streamed = sent("chat", body, saying(then="too long"))[0]  # behind an empty part
        assert ("num_ctx" in lines(streamed)[-1]["error"]) == said


def test_options_beside_the_options_are_taken_too() -> None:
    """As ollama-ai-provider sends them."""
    body = {"messages": HELLO, "temperature": 0.5, "max_output_tokens": 60, "top_k": 7}
    asked = request_of("chat", body | {"tool_choice": "auto", "options": {"top_k": 3}}).request
    assert asked.sampling is not None
    assert (asked.sampling.temperature, asked.sampling.top_k) == (0.5, 3)
    assert asked.max_tokens == 60


def test_a_choice_among_tools(thinker: str) -> None:
    body = {"messages": HELLO, "tools": TOOLS, "tool_choice": "required"}
    _, asked = sent("chat", body, saying(CALL), target=thinker)
    assert asked is not None
    assert asked.request.grammar is not None
    assert sent("chat", body | {"tools": []})[0].status_code == 400


def test_a_history_without_ids_is_told_by_names_and_order() -> None:
    def call(name: str) -> dict[str, Any]:
        return {"function": {"name": name, "arguments": {"x": 1}}}

    messages = [
        *HELLO,
        {"role": "Assistant", "thinking": "Hm.", "tool_calls": [call("f"), call("g")]},
        {"role": "tool", "tool_name": "g", "content": "two"},
        {"role": "tool", "content": "one"},
        {"role": "user", "content": "See?", "images": ["AAAA"]},
        {"role": "assistant", "content": "No."},
        *HELLO,
    ]
    _, said, second, first, image, *_ = request_of("chat", {"messages": messages}).prompt.messages
    assert said.reasoning == "Hm."
    ids = [one.id for one in said.tool_calls]
    assert len({*ids}) == 2
    assert [(one.tool_call_id, one.name) for one in (first, second)] == [
        (ids[0], "f"),
        (ids[1], "g"),
    ]
    assert image.content.startswith("[image: not shown")
    assert image.content.endswith("\n\nSee?")


def test_log_probabilities() -> None:
    body = {"messages": HELLO, "logprobs": True, "top_logprobs": 2, "stream": False}
    response, generate = sent("chat", body)
    assert generate is not None
    assert generate.request.logprobs == 2
    found = response.json()["logprobs"]
    assert "".join(one["token"] for one in found) == "Hi"
    assert {len(one["top_logprobs"]) for one in found} == {2}


@pytest.mark.parametrize(
    ("path", "body", "word"),
    [
        ("chat", {"messages": [{"role": "user", "images": ["A"]}]}, "text only"),
        ("generate", {"prompt": "a", "images": ["A"]}, "text only"),
        ("generate", {"prompt": "a", "template": "{{ x }}"}, "template"),
        ("chat", {"messages": HELLO, "format": "xml"}, "format"),
        ("chat", {"messages": HELLO, "options": {"mirostat": 2}}, "mirostat"),
        ("chat", {"messages": HELLO, "options": {"temperature": "hot"}}, "options.temperature"),
        ("chat", {"messages": HELLO, "options": 5}, "options"),
        ("chat", {"messages": HELLO, "response_format": {"type": "json_object"}}, "format"),
        ("chat", {"messages": [{"role": "wizard"}]}, "messages[0].role"),
    ],
)
def test_what_is_not_here_is_refused_by_name(path: str, body: dict[str, Any], word: str) -> None:
    response, generate = sent(path, body)
    assert response.status_code == 400
    assert word in response.json()["error"]
    assert generate is None


def test_a_failure_ends_a_stream_with_an_error() -> None:
    body = {"messages": HELLO}
    *_, last = lines(sent("chat", body, saying("Hel", then="engine"))[0])
    assert [*last] == ["error"]
    whole, _ = sent("chat", body | {"stream": False}, saying("Hel", then="engine"))
    assert (whole.status_code, [*whole.json()]) == (503, ["error"])


def test_a_client_that_waits_gets_empty_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "WAITING_SECONDS", 0.05)
    parts = lines(sent("chat", {"messages": HELLO}, saying("a", "b", delay=0.3))[0])
    assert len(parts) > 4
    assert "".join(part["message"]["content"] for part in parts) == "ab"


def test_a_call_that_was_cut_off_is_left_out(thinker: str) -> None:
    body = {"messages": HELLO, "tools": TOOLS, "format": "json"}
    play = saying(CALL[:45], then="length")
    *parts, last = lines(sent("chat", body, play, target=thinker)[0])
    assert last["done_reason"] == "length"
    assert not any("tool_calls" in part["message"] for part in parts)


def test_without_a_prompt_it_is_asked_whether_there_is_a_model() -> None:
    for path, body, reason in (
        ("chat", {"messages": []}, "load"),
        ("generate", {"keep_alive": "5m"}, "load"),
        ("generate", {"keep_alive": 0}, "unload"),
        ("chat", {"keep_alive": "0s"}, "unload"),
    ):
        response, generate = sent(path, body)
        assert generate is None
        answer = response.json()
        assert (answer["done"], answer["done_reason"], answer["model"]) == (True, reason, "tiny")
        assert sent(path, body, target="")[0].status_code == 503


def test_how_long_the_model_stays_loaded() -> None:
    async def ask() -> None:
        async with asking(saying("Hi")) as (client, _):
            for keep, wanted in (("10m", 200), (300, 200), (-1, 200), ("soon", 400), (None, 200)):
                body = {"messages": HELLO, "keep_alive": keep}
                assert (await client.post("/api/chat", json=body)).status_code == wanted

    run(ask())


def test_a_prompt_that_is_too_long_may_lose_its_oldest_turns_where_that_is_asked_for() -> None:
    for truncate, overflow in ((None, "stop"), (False, "stop"), (True, "rolling")):
        asked = request_of("chat", {"messages": HELLO, "truncate": truncate})
        assert asked.request.overflow == overflow
