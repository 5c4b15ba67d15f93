"""The server's description of itself."""

import json
from typing import Any

import pytest

from engine.server.routes import OPERATIONS
from tests.support.engine.asking import asking, run


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        async with asking() as (client, _):
            response = await client.get("/openapi.json")
            assert response.status_code == 200
            found: dict[str, Any] = response.json()
            return found

    return run(ask())


def test_it_has_every_operation(document: dict[str, Any]) -> None:
    described = {
        (method, path) for path, methods in document["paths"].items() for method in methods
    }
    assert len(described) == len(OPERATIONS)
    assert {
        ("post", "/v1/responses"),
        ("get", "/v1/models/{model}"),
        ("get", "/health"),
        ("post", "/api/chat"),
    } <= described
    assert all(one["summary"] for methods in document["paths"].values() for one in methods.values())


def test_what_it_refers_to_is_there(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    references = {
        part.split('"')[0] for part in json.dumps(document).split("#/components/schemas/")[1:]
    }
    assert references <= {*schemas}
    assert {"ChatBody", "CompletionBody", "MessagesBody", "ResponsesBody", "Error"} <= references


def test_limits_are_described(document: dict[str, Any]) -> None:
    fields = document["components"]["schemas"]["MessagesBody"]["properties"]
    assert fields["max_tokens"]["minimum"] == 1
    assert fields["top_k"]["anyOf"][0]["minimum"] == -1


def test_null_is_as_good_as_nothing(document: dict[str, Any]) -> None:
    for schema in document["components"]["schemas"].values():
        for name, field in schema.get("properties", {}).items():
            required = name in schema.get("required", ())
            assert required or field.get("type") == "null" or {"type": "null"} in field["anyOf"]


def test_numbers_that_are_whole_are_taken_as_such() -> None:
    async def ask() -> None:
        async with asking() as (client, _):
            body = {"max_tokens": 8.0, "messages": [{"role": "user", "content": "a"}]}
            assert (await client.post("/v1/messages", json=body)).status_code == 200
            half = await client.post("/v1/messages", json={**body, "max_tokens": 8.5})
            assert half.status_code == 400

    run(ask())
