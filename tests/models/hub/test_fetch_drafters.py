"""Drafters of others are fetched like models; what cannot be used is refused early."""

import pytest

from models.drafters.folders import describe_drafter
from models.errors import Problem
from models.hub.fetch import completed
from tests.support.models.drafter_configs import drafter_files, drafter_layout
from tests.support.models.hub_models import Client

NAME = "somebody/a-drafter"


@pytest.fixture
def client(server, tmp_path):
    return Client(server, tmp_path, name=NAME)


@pytest.mark.parametrize(
    ("layout", "weights"),
    [
        ("dspark-liquid", "model.safetensors"),
        ("medusa", "medusa_lm_head.safetensors"),
        ("mtp-huggingface", "mtp.safetensors"),
    ],
)
def test_a_drafter_is_fetched(client, server, tmp_path, layout, weights):
    """Its network is our own: the code that comes along is neither fetched nor run."""
    made = drafter_layout(layout)
    made.config["auto_map"] = {"AutoModel": "modeling_drafter.Drafter"}
    files = drafter_files(made, tmp_path / "made", weights=weights)
    server.repositories[NAME] = files | {"modeling_drafter.py": b"raise SystemExit"}
    path = client.fetch()
    assert {file.name for file in path.iterdir()} == files.keys()
    assert completed(path, home=client.home)
    assert describe_drafter(path).kind == drafter_layout(layout).expected["kind"]


@pytest.mark.parametrize(
    ("layout", "message", "remedy"),
    [
        ("refused-pickled", "pickled", "safetensors"),
        ("refused-unknown-kind", "architecture", "another"),
        ("refused-quantized-by-others", "compressed-tensors", "16-bit"),
        ("refused-layers-that-cannot-be", "layers", "another"),
    ],
)
def test_what_cannot_be_used_is_refused_before_it_is_fetched(
    client, server, tmp_path, layout, message, remedy
):
    server.repositories[NAME] = drafter_files(drafter_layout(layout), tmp_path / "made")
    with pytest.raises(Problem, match=message) as refusal:
        client.fetch()
    assert remedy in refusal.value.remedy
    assert not server.requests(".safetensors")
    assert not server.requests(".bin")
