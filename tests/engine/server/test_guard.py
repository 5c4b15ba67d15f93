"""Who may ask: by Host, Origin, key and the kind of body, on every path."""

import asyncio

import pytest

from engine.server.app import ROUTES
from engine.server.errors import Refusal
from engine.server.guard import Guard, hosts_of
from tests.support.engine.asking import PORT, asking, listening

PATHS = [*ROUTES, "/v1/nothing"]
CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "hello"}]}
KEY = "sk-slipstream-correct-horse"


async def asked_everywhere(headers):
    """The responses at all paths, by all methods."""
    async with asking() as (client, _):
        return [
            await client.request(method, path, headers=headers)
            for path in PATHS
            for method in ("GET", "HEAD", "POST", "OPTIONS", "DELETE")
        ]


async def test_no_path_answers_to_another_name_or_to_a_page():
    for headers in ({"host": "evil.example"}, {"origin": f"http://127.0.0.1:{PORT}"}):
        for response in await asked_everywhere(headers):
            assert response.status_code == 403
            assert not any(name.startswith("access-control") for name in response.headers)
            if "host" in headers and response.request.method != "HEAD":
                assert "--allow-host" in response.text


NAMES = (
    *(f"127.0.0.1:{PORT}", "127.0.0.1", f"LocalHost:{PORT}", f"[::1]:{PORT}", "[::1]"),
    *(f"host.docker.internal:{PORT}", "HOST.docker.internal"),  # which is added
)
OTHERS = (
    "evil.example",
    "evil.example:8737",
    f"127.0.0.1.evil.example:{PORT}",
    f"127.0.0.1:{PORT}/",
    f"127.0.0.1:{PORT}?x",
    f"127.0.0.1:{PORT}#x",
    f"evil@127.0.0.1:{PORT}",
    f"localhost.:{PORT}",
    "127.0.0.1:80",
    "[::1]:80",
    f"[::2]:{PORT}",
    f"127.0.0.2:{PORT}",
    f"0.0.0.0:{PORT}",
)


def test_there_is_one_host_by_one_of_its_names_and_no_origin():
    guard = Guard(hosts_of("127.0.0.1", PORT, ["Host.Docker.Internal"]))
    for host in NAMES:
        assert guard.check_place([(b"host", host.encode())]) == {}, host
    origins = (b"null", b"http://evil.example", f"http://127.0.0.1:{PORT}".encode())
    for headers in (
        *([(b"host", host.encode())] for host in OTHERS),
        [(b"host", b"127.0.0.1"), (b"host", b"evil.example")],
        *([(b"host", b"127.0.0.1"), (b"origin", origin)] for origin in origins),
    ):
        with pytest.raises(Refusal):
            pytest.fail(f"{headers} are {guard.check_place(headers)}")


async def test_a_page_that_is_allowed_may_ask():
    origin = "http://localhost:3000"

    async with asking(key=KEY, origins=("http://LocalHost:3000/",)) as (client, _):
        before = await client.options(CHAT, headers={"origin": origin})
        assert before.status_code == 204
        assert before.headers["access-control-allow-origin"] == origin
        assert "authorization" in before.headers["access-control-allow-headers"]
        assert int(before.headers["access-control-max-age"]) > 0
        names = "x-stainless-os, x-stainless-lang, x-stainless-retry-count, authorization"
        asking_for = {"origin": origin, "access-control-request-headers": names}
        sdk = await client.options(CHAT, headers=asking_for)
        assert sdk.headers["access-control-allow-headers"] == names
        asked = await client.post(CHAT, json=BODY, headers={"origin": origin, "x-api-key": KEY})
        assert asked.status_code == 200
        assert asked.headers["access-control-allow-origin"] == origin
        refused = await client.post(CHAT, json=BODY, headers={"origin": origin})
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == origin
        other = await client.post(CHAT, json=BODY, headers={"origin": "http://localhost:3001"})
        assert other.status_code == 403


async def test_the_key_is_asked_for_everywhere_but_where_nothing_is_told():
    async def ask(client, path, headers):
        return (await client.get(path, headers=headers)).status_code

    async with asking(key=KEY) as (client, _):
        for path in PATHS:
            is_open = path in ("/", "/health")
            for headers in ({}, {"x-api-key": "wrong"}):
                status = await ask(client, path, headers)
                assert status == (200 if is_open else 401), (path, headers)
        for headers in (
            {"x-api-key": ""},
            {"x-api-key": KEY[:-1]},
            {"x-api-key": KEY.upper()},
            {"x-api-key": b"\xff" * 20},
            {"authorization": KEY},
            {"authorization": f"Basic {KEY}"},
            {"authorization": "Bearer "},
        ):
            assert await ask(client, "/v1/models", headers) == 401, headers
        for headers in (
            {"x-api-key": KEY},
            {"authorization": f"Bearer {KEY}"},
            {"authorization": f"bearer {KEY}"},
            {"authorization": f"Bearer {KEY}", "x-api-key": "sk-of-another-server"},
            {"authorization": "Bearer sk-of-another-server", "x-api-key": KEY},
        ):
            assert await ask(client, "/v1/models", headers) == 200


async def test_a_missing_key_and_a_wrong_one_are_told_alike():
    async with asking(key=KEY) as (client, _):
        missing = await client.post(CHAT, json=BODY)
        wrong = await client.post(CHAT, json=BODY, headers={"x-api-key": "sk-wrong"})
        assert missing.status_code == wrong.status_code == 401
        assert missing.json() == wrong.json()
        assert missing.json()["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-type": "application/json-patch+json"},
        {"content-type": ""},
        {"content-type": "application/json", "content-encoding": "gzip"},
        {"content-type": "application/json", "content-encoding": "identity, gzip"},
    ],
)
async def test_what_a_page_can_send_without_asking_first_is_refused(headers):
    async with asking() as (client, _):
        response = await client.post(CHAT, content=b'{"messages": []}', headers=headers)
        assert response.status_code == 415
        if "content-encoding" not in headers:
            message = response.json()["error"]["message"]
            assert "Content-Type: application/json" in message


CURL = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/api/chat", {}, 200),
        ("/api/generate", {}, 200),
        ("/api/show", {}, 200),
        ("/api/chat", {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}, 200),
        ("/v1/api/chat", {}, 200),  # which is the same path
        ("/api/chat", {"content-type": "text/plain"}, 415),
        ("/api/chat", {"sec-fetch-site": "cross-site"}, 415),
        ("/api/chat", {"sec-fetch-site": "same-origin"}, 415),
        ("/api/chat", {"sec-fetch-mode": "no-cors"}, 415),
        ("/api/chat", {"origin": "null"}, 403),
        ("/api/chat", {"origin": "http://evil.example"}, 403),
        ("/api/chat", {"origin": "http://localhost:3000"}, 415),
        ("/chat/completions", {}, 415),
        ("/messages", {}, 415),
        ("/responses", {}, 415),
    ],
)
async def test_curl_may_ask_as_ollamas_documentation_does_and_no_page(path, headers, status):
    """Also no page of an origin that may ask: its browser has to ask first."""
    body = b'{"model": "tiny", "prompt": "a", "messages": [{"role": "user", "content": "a"}]}'

    async with asking(origins=("http://localhost:3000",)) as (client, _):
        response = await client.post(path, content=body, headers=CURL | headers)
        assert response.status_code == status


async def test_there_is_one_host_and_no_more():
    async with listening() as server:
        good = f"Host: 127.0.0.1:{server.port}\r\n"
        for hosts in ("", good + good, good + "Host: evil.example\r\n"):
            for version in ("1.0", "1.1"):
                head = f"GET /health HTTP/{version}\r\n{hosts}Connection: close\r\n\r\n"
                answer = await server.said(head.encode())
                assert answer.startswith(b"HTTP/1.1 400"), (hosts, version)
        answer = await server.said(f"GET /health HTTP/1.0\r\n{good}\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 200")
        await asyncio.sleep(0)
