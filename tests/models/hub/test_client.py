"""The hub is asked and understood; what it refuses, and what it should not say, is explained."""

import json

import pytest
from huggingface_hub import get_token
from huggingface_hub.utils import close_session

from models.errors import Problem
from models.hub.client import Hub
from models.hub.repository import needed, parse_repository
from tests.support.models.hub_models import CONFIG, NAME, NEEDED, safetensors
from tests.support.models.hub_server import Refusal, Told, git_sha1, serving_hub, sha256


@pytest.fixture(autouse=True)
def nobody_signed_in(monkeypatch):
    monkeypatch.setattr("models.hub.client.get_token", lambda: None)


@pytest.fixture
def hub(server):
    hub = Hub(endpoint=server.endpoint)
    hub.wait_seconds = 0.0
    return hub


def test_a_repository_is_described(server, hub):
    told = hub.describe(NAME)
    files = server.repositories[NAME]
    assert (told.name, told.revision, told.reference) == (NAME, server.commit(NAME), "main")
    assert (told.gated, told.licence) == (False, "apache-2.0")
    assert {file.name: file.size_bytes for file in told.files} == {
        name: len(data) for name, data in files.items()
    }
    config, weights = told.file("config.json"), told.file("model-1-of-2.safetensors")
    assert config.sha256 is None
    assert config.digest == git_sha1(files["config.json"])
    assert weights.digest == weights.sha256 == sha256(files["model-1-of-2.safetensors"])
    assert {file.name for file in needed(told)} == NEEDED
    assert hub.describe(NAME, "v1.0").reference == "v1.0"
    assert hub.describe(NAME, told.revision).reference == ""
    with pytest.raises(Problem, match="no such revision"):
        hub.describe(NAME, "v2.0")


def test_a_config_is_read_alone_and_must_be_a_sound_table(server, hub, subtests):
    repository = hub.describe(NAME)
    assert hub.config(repository) == CONFIG
    assert [asked.path for asked in server.asked][1:] == [
        f"/{NAME}/resolve/{repository.revision}/config.json"
    ]
    with pytest.raises(Problem, match="too large"):
        hub.read(repository, "tokenizer.json", maximum_bytes=10_000)
    with pytest.raises(Problem, match=r"has no other.json"):
        hub.read(repository, "other.json", maximum_bytes=10_000)
    server.corrupt["config.json"] = 1
    with pytest.raises(Problem, match="came damaged"):
        hub.config(repository)
    for config in [b"[]", b"{", b"[" * 100_000, b"\xff"]:
        with subtests.test(config=config[:9]):
            server.repositories[NAME]["config.json"] = config
            with pytest.raises(Problem, match="not a JSON object"):
                hub.config(hub.describe(NAME))


NO_NAMES = ["", "a/b/c", "../x", "a/..", "a b", "-a/b", "a/b.git", "a--b/c"]
NO_REVISIONS = ["", "..", "a/../b", "/a", "a b", "a\n", "x" * 300]


def test_what_names_nothing_is_not_asked_for(server, hub, subtests):
    names = [((name,), "not the name of a model") for name in NO_NAMES]
    for asked, refused in names + [((NAME, text), "not a revision") for text in NO_REVISIONS]:
        with subtests.test(asked=asked), pytest.raises(Problem, match=refused):
            hub.describe(*asked)
    assert server.asked == []


def test_refusals_are_explained(server, hub, subtests):
    for refusal, message, remedy in [
        (Refusal(401), "asks who wants", "Sign in first: hf auth login"),
        (Refusal(401, headers={"X-Error-Code": "RepoNotFound"}), "was not found", "private"),
        (Refusal(403), "no access", "hf auth login"),
        (Refusal(403, headers={"X-Error-Code": "GatedRepo"}), "is gated", "hf auth login"),
        (
            Refusal(403, headers={"X-Error-Message": "Access to this resource is disabled."}),
            "has closed",
            "another model",
        ),
        (Refusal(429, headers={"Retry-After": "77"}), "limits the number", "in 77 seconds"),
        (Refusal(200, body=b"<html>sign in</html>"), "not come from", "sign in"),
        (Refusal(200, body=b"{}"), "cannot be understood", "HF_ENDPOINT"),
    ]:
        with subtests.test(refusal=refusal):
            server.refusals["/api/models"] = refusal
            with pytest.raises(Problem) as raised:
                hub.describe(NAME)
            assert message in raised.value.message
            assert remedy in raised.value.remedy
            assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:9", "proxy"),
        ("http_proxy", "http://127.0.0.1:x", "proxy"),
        ("HTTP_PROXY", "http://127.0.0.1:9", "cannot be reached"),
        ("SSL_CERT_FILE", "/nope.pem", "certificates"),
        ("SSL_CERT_FILE", "/etc/passwd", "certificates"),
        ("HF_TOKEN", "hf_ü", "token"),
    ],
)
def test_a_variable_at_fault_is_named(server, monkeypatch, variable, value, says):
    monkeypatch.setattr("models.hub.client.get_token", get_token)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv(variable, value)
    close_session()
    with pytest.raises(Problem, match=says) as raised:
        Hub(endpoint=server.endpoint).describe(NAME)
    close_session()
    assert variable in raised.value.remedy
    assert "\n" not in str(raised.value)


def test_offline_nothing_is_asked_and_of_this_machine_nothing_told(server, hub, monkeypatch):
    hub.search("tiny")
    hub.config(hub.describe(NAME))
    assert {asked.agent for asked in server.asked} == {"slipstream"}
    assert not [asked for asked in server.asked if "harness" in asked.path]
    server.asked.clear()
    offline = Hub(endpoint=server.endpoint, offline=True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for each in (offline, Hub(endpoint=server.endpoint)):
        for ask in (each.describe, each.search):
            with pytest.raises(Problem, match="offline mode is on"):
                ask(NAME)
    assert server.asked == []


def model():
    return {"config.json": json.dumps(CONFIG).encode(), "model.safetensors": safetensors(1, 10)}


def test_a_search_says_why_not(server, hub, subtests):
    for files, told, reason in [
        (model(), Told(), ""),
        (model(), Told(gated="auto"), "gated"),
        (model(), Told(pipeline_tag="text-to-image"), "made for text-to-image"),
        ({"x-Q4.gguf": b"GGUF"}, Told(), "GGUF files only"),
        ({"config.json": b"{}", "pytorch_model.bin": b"x"}, Told(), "pickled"),
        ({"model.safetensors": b"x"}, Told(), "no config.json"),
        (model() | {"config.json": b'{"model_type": "nonesuch"}'}, Told(), "nonesuch"),
        (
            model() | {"config.json": b'{"model_type": "nonesuch"}'},
            Told(tags=["mlx", "custom_code"]),
            "program code",
        ),
    ]:
        with subtests.test(reason=reason, facts=told):
            server.repositories["org/wanted"], server.told["org/wanted"] = files, told
            (found,) = hub.search("wanted")
            assert found.repository == "org/wanted"
            assert reason in found.reason
            assert bool(found.reason) == bool(reason)
            (found,) = Hub(endpoint=server.endpoint, token="hf_x").search("wanted")
            assert bool(found.reason) == bool(reason and reason != "gated")


def test_a_search_lists_what_can_be_used_first(server, hub):
    server.repositories |= {"a/tiny-gguf": {"x.gguf": b"x"}, "b/tiny-torch": model()}
    parameters = {"parameters": {"U32": 10, "BF16": 3}, "total": 13}
    torch = Told(downloads=500, tags=["license:mit"], card={}, safetensors=parameters)
    server.told |= {"a/tiny-gguf": Told(downloads=900), "b/tiny-torch": torch}
    found = hub.search(" Tiny\udcff ")
    assert [one.repository for one in found] == [NAME, "b/tiny-torch", "a/tiny-gguf"]
    assert [one.size_bytes for one in found] == [None, 46, None]
    assert (found[1].licence, found[1].updated, found[1].downloads) == ("mit", "2026-03-01", 500)
    assert [one.repository for one in hub.search("tiny", limit=1)] == ["a/tiny-gguf"]
    assert hub.search("nothing like it") == []
    assert len(hub.search("")) == 3


def test_a_search_passes_over_what_makes_no_sense_and_asks_no_other_hub(server):
    entries = [None, {}, {"id": "../x"}, {"id": NAME, "siblings": 3}, {"id": NAME, "siblings": []}]
    hub = Hub(endpoint=server.endpoint, token="hf_x")
    with serving_hub({}) as elsewhere:
        headers = {"Link": f'<{elsewhere.endpoint}/api/models?page=2>; rel="next"'}
        body = json.dumps(entries).encode()
        server.refusals["/api/models"] = Refusal(200, headers=headers, body=body)
        assert {one.repository for one in hub.search("tiny")} == {NAME}
        assert {asked.token for asked in server.asked} == {"hf_x"}
        assert elsewhere.asked == []
    server.refusals["/api/models"] = Refusal(200, body=b"{}")
    with pytest.raises(Problem):
        hub.search("tiny")


OUTSIDE, ODD = "would lie outside", "cannot be understood"
HOSTILE = [
    "../escape.safetensors", "/etc/model.safetensors", "C:\\model.safetensors",
    "C:model.safetensors", "\\\\server\\share\\model.safetensors",
    "sub/../../model.safetensors", "sub\\..\\..\\x", "..", "", "model\n.safetensors",
    "model\u202e.safetensors", "sub/C:/x",
]  # fmt: skip
SENSELESS = [
    {"size": -1}, {"size": None}, {"size": 1.0}, {"size": True}, {"blobId": "../../x"},
    {"blobId": None}, {"lfs": {"size": 1, "sha256": "../../x"}},
    {"lfs": {"size": 1, "sha256": "A" * 64}}, {"lfs": {"size": -1, "sha256": "0" * 64}},
    {"lfs": {"size": 1}}, {"lfs": 3},
]  # fmt: skip
COMMIT = "0" * 40


def listing(*entries, commit=COMMIT):
    facts = {"id": NAME, "sha": commit, "siblings": [*entries]}
    return parse_repository(facts, asked=NAME, revision=None)


def test_a_hostile_name_or_a_senseless_entry_condemns_the_repository(subtests):
    sound = {"rfilename": "x", "size": 1, "blobId": COMMIT}
    assert listing(sound).files[0].name == "x"
    for entry in ({"rfilename": name} for name in HOSTILE):
        with subtests.test(entry=entry):
            with pytest.raises(Problem, match=f"{OUTSIDE}|{ODD}") as raised:
                listing(sound | entry)
            assert "\n" not in str(raised.value)
    for entry in SENSELESS:
        with subtests.test(entry=entry), pytest.raises(Problem, match=ODD):
            listing(sound | entry)
    for commit in ["main", "../..", "0" * 39, "0" * 41, "A" * 40, 3, None]:
        with subtests.test(commit=commit), pytest.raises(Problem, match=ODD):
            listing(sound, commit=commit)
    with pytest.raises(Problem, match=ODD):
        listing(None)
