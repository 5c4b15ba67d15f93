"""Who may ask: by Host, Origin, key and the kind of body, on every path; and the key's file."""

import pytest

from engine.server.app import ROUTES
from engine.server.errors import Refusal
from engine.server.guard import Guard, hosts_of
from engine.server.keys import default_key_file, read_key
from models.errors import Problem
from tests.support.engine.asking import PORT, asking

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
    *("evil.example", "evil.example:8737", "127.0.0.1:80", "[::1]:80", f"evil@127.0.0.1:{PORT}"),
    *(f"127.0.0.1:{PORT}{more}" for more in ("/", "?x", "#x")),
    *(f"{host}:{PORT}" for host in ("127.0.0.1.evil.example", "localhost.", "127.0.0.2")),
    *(f"{host}:{PORT}" for host in ("[::2]", "0.0.0.0")),
)


def test_there_is_one_host_by_one_of_its_names_and_no_origin():
    guard = Guard(hosts_of("127.0.0.1", PORT, ["Host.Docker.Internal"]))
    for host in NAMES:
        assert guard.check_place([(b"host", host.encode())]) == {}, host
    origins = (b"null", b"http://evil.example", f"http://127.0.0.1:{PORT}".encode())
    for headers in (
        *([(b"host", host.encode())] for host in OTHERS),
        [],
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
    async def ask(path, headers):
        return (await client.get(path, headers=headers)).status_code

    async with asking(key=KEY) as (client, _):
        for path in PATHS:
            is_open = path in ("/", "/health")
            for headers in ({}, {"x-api-key": "wrong"}):
                status = await ask(path, headers)
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
            assert await ask("/v1/models", headers) == 401, headers
        for headers in (
            {"x-api-key": KEY},
            {"authorization": f"Bearer {KEY}"},
            {"authorization": f"bearer {KEY}"},
            {"authorization": f"Bearer {KEY}", "x-api-key": "sk-of-another-server"},
            {"authorization": "Bearer sk-of-another-server", "x-api-key": KEY},
        ):
            assert await ask("/v1/models", headers) == 200
        missing = await client.post(CHAT, json=BODY)
        wrong = await client.post(CHAT, json=BODY, headers={"x-api-key": "sk-wrong"})
        assert missing.status_code == wrong.status_code == 401
        assert missing.json() == wrong.json(), "they are told alike"
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
        told = "Content-Type: application/json" in response.json()["error"]["message"]
        assert told == ("content-encoding" not in headers)


CURL = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/api/chat", {}, 200),
        ("/api/generate", {}, 200),
        ("/api/show", {}, 200),
        ("/api/chat", {"content-type": f"{CURL['content-type']}; charset=utf-8"}, 200),
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


# The file of the key


def test_a_file_that_is_not_there_is_made_for_its_owner_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path / "home"))
    assert default_key_file().parent == tmp_path / "home"
    path = tmp_path / "folder" / "key"
    key = read_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(key) > 30
    assert read_key(path) == key


def test_a_file_that_others_can_read_or_without_a_key_is_refused(tmp_path):
    path = tmp_path / "key"
    read_key(path)
    for mode in (0o640, 0o604, 0o660):
        path.chmod(mode)
        with pytest.raises(Problem) as caught:
            read_key(path)
        assert "chmod 600" in caught.value.remedy
    path.chmod(0o600)
    for text in ("", "short", "two words in a line", "ab\x00cd" * 9, "ü" * 30):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(Problem):
            pytest.fail(f"{text} is {read_key(path)}")
    for other in (tmp_path, path / "key"):  # a folder, and one that cannot be made
        with pytest.raises(Problem):
            read_key(other)
