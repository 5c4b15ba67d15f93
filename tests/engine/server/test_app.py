"""Paths, methods and headers, whatever is asked there."""

import pytest

from tests.support.engine.asking import asking, run


@pytest.mark.parametrize(
    "path",
    ["/", "/health", "/v1/health", "/health/", "/v1/health/?", "/v1", "/?x=1", "//v1//health"],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_path_is_found_however_it_is_written(path: str, method: str) -> None:
    async def ask() -> None:
        async with asking() as (client, _):
            response = await client.request(method, path)
            assert response.status_code == 200
            assert (response.content == b"") == (method == "HEAD")

    run(ask())


def test_a_path_that_is_not_there_and_a_method_that_is_not() -> None:
    async def ask() -> None:
        async with asking() as (client, _):
            missing = await client.get("/v1/nothing")
            assert missing.status_code == 404
            assert missing.json()["error"]["code"] == "not_found"
            wrong = await client.delete("/health")
            assert wrong.status_code == 405
            assert wrong.headers["allow"] == "GET, HEAD"

    run(ask())


def test_what_other_servers_have_says_what_is_missing() -> None:
    async def ask() -> None:
        async with asking() as (client, _):
            for path, word in (
                ("/v1/embeddings", "embeddings"),
                ("/v1/images/generations", "images"),
                ("/v1/audio/transcriptions", "sounds"),
                ("/v1/responses/resp_1", "stored"),
            ):
                response = await client.post(path, json={"input": "a"})
                assert response.status_code == 404
                assert word in response.json()["error"]["message"]

    run(ask())


def test_a_body_may_begin_with_a_byte_order_mark() -> None:
    async def ask() -> None:
        async with asking() as (client, _):
            body = b'\xef\xbb\xbf{"messages": [{"role": "user", "content": "a"}]}'
            headers = {"content-type": "application/json"}
            response = await client.post("/v1/chat/completions", content=body, headers=headers)
            assert response.status_code == 200

    run(ask())


def test_health_says_whether_something_is_loaded() -> None:
    async def ask() -> None:
        async with asking(target="") as (client, _):
            response = await client.get("/health")
            assert response.status_code == 503
            assert response.headers["retry-after"] == "3"
            assert response.headers["x-should-retry"] == "true"

    run(ask())
