"""Models in both shapes, by whatever name a client asks."""

from tests.support.engine.asking import asking, events, run

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "hello you"}]}


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
