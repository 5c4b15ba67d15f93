"""Paths, methods and headers, whatever is asked there; models by all their names."""

import asyncio
import json

from engine.server.app import ROUTES
from tests.support.engine.asking import asking, events, until
from tests.support.engine.scripted_host import LOADED, saying


async def test_a_path_is_found_however_it_is_written():
    async with asking() as (client, _):
        for path in ("/", "/health", "/v1/health/?", "/v1", "/?x=1", "//v1//health"):
            for method in ("GET", "HEAD"):
                response = await client.request(method, path)
                assert response.status_code == 200
                assert (response.content == b"") == (method == "HEAD")
        for allowed, paths in (("GET, HEAD", READ), ("POST", WRITTEN)):
            for path in (*paths, *(f"/v1{path}" for path in paths)):
                refused = await client.put(path, json={})
                assert (refused.status_code, refused.headers["allow"]) == (405, allowed), path
        for path, word in (
            ("/v1/nothing", "not_found"),
            ("/v1/embeddings", "Embeddings"),
            ("/v1/responses/resp_1", "stored"),
            ("/api/pull", "slipstream models"),
        ):
            response = await client.post(path, json={"input": "a"})
            assert response.status_code == 404
            assert word in str(response.json()["error"])
        # A body may begin with a byte order mark, and its kind may have parameters.
        headers = {"content-type": "Application/JSON; charset=utf-8"}
        body = b"\xef\xbb\xbf" + json.dumps(BODY).encode()
        assert (await client.post(CHAT, content=body, headers=headers)).status_code == 200
    assert {*ROUTES} == {*READ, *WRITTEN}


READ = ["/", "/health", "/models", "/models/*"]
READ += ["/api/tags", "/api/ps", "/api/version"]
WRITTEN = ["/chat/completions", "/completions", "/responses", "/messages", "/messages/count_tokens"]
WRITTEN += ["/api/chat", "/api/generate", "/api/show"]


CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "hello you"}]}


async def test_models_have_the_shape_that_the_client_reads():
    async with asking() as (client, _):
        for path in ("/v1/models", "/models/", "/api/v0/models", "/v1/models?limit=1000"):
            listed = (await client.get(path)).json()
            (model,) = listed["data"]
            assert (listed["object"], model["id"], model["object"]) == ("list", "tiny", "model")
            assert model["max_model_len"] == model["context_length"] == 4096
            assert model["max_context_length"] == model["meta"]["n_ctx_train"] == 4096
            assert (model["type"], model["state"]) == ("llm", "loaded")
        headers = {"anthropic-version": "2023-06-01"}
        listed = (await client.get("/v1/models", headers=headers)).json()
        (model,) = listed["data"]
        assert (model["type"], model["id"], listed["has_more"]) == ("model", "tiny", False)
        assert listed["first_id"] == listed["last_id"] == "tiny"
        for name in ("tiny", "tiny:latest", "gpt-4/x", "v1"):  # which all are answered
            for path in (f"/v1/models/{name}", f"/models/{name}/"):
                assert (await client.get(path)).json()["id"] == "tiny"
                assert (await client.get(path, headers=headers)).json()["type"] == "model"
        for name in ("gpt-5", "claude-sonnet", "", None):
            response = await client.post(CHAT, json={**BODY, "model": name})
            assert response.json()["model"] == "tiny"
        streamed = await client.post(CHAT, json={**BODY, "model": "x", "stream": True})
        assert {chunk["model"] for _, chunk in events(streamed)[:-1]} == {"tiny"}


async def test_who_comes_when_too_many_wait_is_told_when_to_come_again():
    async with asking(saying("a", then="hang"), most_waiting=2) as (client, host):
        most = LOADED.parallel + 2
        asked = [asyncio.create_task(client.post(CHAT, json=BODY)) for _ in range(most + 1)]
        await until(lambda: len(host.running) + sum(task.done() for task in asked) > most)
        assert len(host.running) == most
        waiting = [task for task in asked if not task.done()]
        (refused,) = [await task for task in asked if task.done()]
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "5"
        assert refused.headers["x-should-retry"] == "true"
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        anthropic = await client.post("/v1/messages", json={**BODY, "max_tokens": 1})
        assert anthropic.json()["error"]["type"] == "rate_limit_error"
        assert (await client.get("/health")).status_code == 200
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


CONFIG = {
    "model_type": "llama", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 10,
    "max_position_embeddings": 64, "quantization": {"bits": 4, "group_size": 32},
}  # fmt: skip


async def answered(method, path, target, **body):
    async with asking(target=str(target)) as (client, _):
        return (await client.request(method, f"/api/{path}", json=body or None)).json()


async def test_what_is_loaded_is_listed_and_described(tmp_path):
    target = tmp_path / "tiny-4bit"
    target.mkdir()
    (target / "config.json").write_text(json.dumps(CONFIG))
    (target / "chat_template.jinja").write_text("<think></think> {{ messages }}")
    (one,) = (await answered("GET", "tags", target))["models"]
    assert one["name"] == one["model"] == "tiny-4bit"
    (same,) = (await answered("GET", "ps", target))["models"]
    assert same["context_length"] == 4096
    assert one.items() <= same.items()
    found = await answered("GET", "version", target)
    assert [number.isdecimal() for number in found["version"].split(".")] == [True] * 3
    for name in ({"model": "tiny-4bit"}, {"name": "tiny-4bit:latest"}):
        found = await answered("POST", "show", target, **name)
        assert found["capabilities"] == ["completion", "tools", "thinking"]
        assert found["model_info"]["llama.context_length"] == 4096
        assert found["parameters"] == "num_ctx 4096"
        assert found["details"]["family"] == "llama"
        assert found["details"]["quantization_level"] == "Q4"
    assert "error" in await answered("POST", "show", target, system="x")
    (target / "config.json").unlink()  # as on a disk that is not there
    (unread,) = (await answered("GET", "tags", target))["models"]
    assert (unread["size"], unread["details"]["family"]) == (0, "")
