"""Counts and times in Prometheus's text, and models in both shapes."""

import re

from tests.support.engine.asking import asking, events, run

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "hello you"}]}
LINE = re.compile(r'slipstream_\w+(\{\w+="[^"\n]*"(,\w+="[^"\n]*")*\})? [0-9.e+-]+')


def test_what_is_answered_is_counted() -> None:
    async def ask() -> None:
        async with asking() as (client, _):
            await client.post(CHAT, json=BODY)
            await client.post(CHAT, json={**BODY, "stream": True, "n": 2})
            await client.post(CHAT, json={})
            await client.get("/nothing/secret")
            response = await client.get("/metrics")
            assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
            lines = response.text.splitlines()
            values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
            assert all(LINE.fullmatch(line) for line in lines if not line.startswith("#"))
            prefix = "slipstream_"
            assert values[prefix + 'requests_total{endpoint="/chat/completions",code="200"}'] == "2"
            assert values[prefix + 'requests_total{endpoint="/chat/completions",code="400"}'] == "1"
            assert values[prefix + 'requests_total{endpoint="other",code="404"}'] == "1"
            assert values[prefix + "prompt_tokens_total"] == "15"
            assert values[prefix + "generated_tokens_total"] == "18"
            assert values[prefix + 'drafted_tokens_total{drafter="lookup"}'] == "9"
            assert values[prefix + 'accepted_tokens_total{drafter="lookup"}'] == "9"
            assert values[prefix + "rounds_total"] == "9"
            assert values[prefix + "time_to_first_token_seconds_count"] == "3"
            assert values[prefix + 'request_seconds_bucket{le="+Inf"}'] == "2"
            assert values[prefix + "running"] == "0"
            assert "tiny" not in response.text
            assert "secret" not in response.text

    run(ask())


def test_buckets_only_grow() -> None:
    async def ask() -> None:
        async with asking() as (client, _):
            await client.post(CHAT, json={**BODY, "n": 4})
            text = (await client.get("/metrics")).text
            for name in ("time_to_first_token", "inter_token", "request"):
                found = re.findall(rf"slipstream_{name}_seconds_bucket\S+ (\d+)", text)
                counts = [int(count) for count in found]
                assert counts == sorted(counts)
                assert f"slipstream_{name}_seconds_count {counts[-1]}" in text

    run(ask())


def test_models_have_the_shape_that_the_client_reads() -> None:
    async def ask() -> None:
        async with asking() as (client, _):
            for path in ("/v1/models", "/models/", "/v1/models?", "/v1/models?limit=1000"):
                listed = (await client.get(path)).json()
                (model,) = listed["data"]
                assert (listed["object"], model["id"], model["object"]) == ("list", "tiny", "model")
                assert model["max_model_len"] == model["context_length"] == 4096
            headers = {"anthropic-version": "2023-06-01"}
            listed = (await client.get("/v1/models", headers=headers)).json()
            (model,) = listed["data"]
            assert (model["type"], model["id"], listed["has_more"]) == ("model", "tiny", False)
            assert listed["first_id"] == listed["last_id"] == "tiny"
            for name in ("tiny", "tiny:latest", "gpt-4/x"):  # which all are answered
                for path in (f"/v1/models/{name}", f"/models/{name}/"):
                    assert (await client.get(path)).json()["id"] == "tiny"
                    assert (await client.get(path, headers=headers)).json()["type"] == "model"

    run(ask())


def test_a_model_of_another_name_is_answered_by_the_one_that_is_there() -> None:
    async def ask() -> None:
        async with asking() as (client, _):
            for name in ("gpt-5", "claude-sonnet", "", None):
                response = await client.post(CHAT, json={**BODY, "model": name})
                assert response.json()["model"] == "tiny"
            streamed = await client.post(CHAT, json={**BODY, "model": "x", "stream": True})
            assert {chunk["model"] for _, chunk in events(streamed)[:-1]} == {"tiny"}

    run(ask())


def test_while_nothing_is_loaded_there_are_no_models() -> None:
    async def ask() -> None:
        async with asking(target="") as (client, _):
            assert (await client.get("/v1/models")).json()["data"] == []
            response = await client.post(CHAT, json=BODY)
            assert response.status_code == 503
            assert response.json()["error"]["code"] == "model_not_ready"

    run(ask())
