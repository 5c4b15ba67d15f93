"""Bodies that are wrong in every way: refused, and nothing else happens."""

import json
import random
from itertools import product
from pathlib import Path

import pytest

from engine.process.protocol import Generate
from engine.server.bodies import DEEPEST
from tests.support.engine.asking import asking, run

DATA = Path(__file__).parents[2] / "data"
BODIES = json.loads((DATA / "server_bodies.json").read_text())
NO_JSON = [
    b"",
    b" ",
    b"{",
    b"}",
    b"nul",
    b"\x00",
    b"\xff\xfe{}",
    b'{"messages": NaN}',
    b'{"temperature": Infinity}',
    b'{"temperature": 1e999}',
    b'{"messages": "\\ud800"}',
    b'{"a": 1} {"b": 2}',
    b'{"a": 1,}',
    b"{'a': 1}",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"[" * DEEPEST + b"]" * DEEPEST + b" " + b"]",
    b'{"a": ' + b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1) + b"}",
    b"1" * 5000,
    b'{"seed": ' + b"9" * 5000 + b"}",
    "{“a”: 1}".encode(),
]
NO_OBJECT = [b"null", b"true", b"5", b'"text"', b"[]", b"[{}]"]


async def posted(client, path, body):
    response = await client.post(path, content=body, headers={"content-type": "application/json"})
    if response.status_code != 200:
        error = response.json()["error"]
        assert error if path.startswith("/api/") else error["message"]
        assert "Traceback" not in response.text
    return response.status_code


def test_what_is_no_json_object_is_refused():
    async def ask():
        async with asking() as (client, host):
            statuses = {
                (path, body): await posted(client, path, body)
                for path, body in product(BODIES, NO_JSON + NO_OBJECT)
            }
            assert not any(isinstance(command, Generate) for command in host.taken)
        return statuses

    assert {case[0]: case[1][:20] for case, status in run(ask()).items() if status != 400} == {}


def _values(value):
    """The places of all values within a value."""
    items = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return [(), *((key, *rest) for key, item in items for rest in _values(item))]


def _with(value, place, new):
    if not place:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = _with(value[place[0]], place[1:], new)
    return copy


JUNK = [
    "\x00",
    "\U0010ffff" * 50,
    -1,
    10**18,
    -(10**30),
    1e308,
    0.5,
    True,
    [],
    {},
    [[]],
    [None],
    {"type": "x"},
    {"": None},
    ["x", 5],
    [{"role": "user"}],
    "<|im_end|>",
    "../../etc/passwd",
]


@pytest.mark.parametrize(
    "rounds", [150, pytest.param(10_000, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_spoilt_bodies_are_answered_or_refused_and_the_server_goes_on(rounds):
    chance = random.Random(rounds)

    def spoilt(path):
        body = BODIES[path]
        for _ in range(chance.randint(1, 3)):
            place = chance.choice(_values(body))
            body = _with(body, place, chance.choice(JUNK))
        data = bytearray(json.dumps(body, ensure_ascii=chance.random() < 0.5).encode())
        match chance.randrange(4):
            case 0:
                del data[chance.randrange(len(data) + 1) :]
            case 1 if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
            case 2:
                at = chance.randrange(len(data) + 1)
                data[at:at] = chance.choice([b"\\ud800", b"}", b",", b"\xc3", b"NaN", b'"'])
        return bytes(data)

    async def ask():
        refused = 0
        async with asking() as (client, host):
            for _ in range(rounds):
                path = chance.choice([*BODIES])
                body = spoilt(path)
                status = await posted(client, path, body)
                assert status in (200, 400), (path, body, status)
                refused += status == 400
            for path, good in BODIES.items():
                assert await posted(client, path, json.dumps(good).encode()) == 200
            assert not host.running
        assert refused > rounds / 2

    run(ask(), seconds=600)
