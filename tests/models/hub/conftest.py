"""A model on a hub on loopback, and who fetches it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.models.hub_models import NAME, Client, loopback_session, model_files
from tests.support.models.hub_server import HubServer, serving_hub


@pytest.fixture(autouse=True, scope="module")
def session() -> Iterator[None]:
    with loopback_session():
        yield


@pytest.fixture
def server() -> Iterator[HubServer]:
    with serving_hub({NAME: model_files()}) as served:
        yield served


@pytest.fixture
def client(server: HubServer, tmp_path: Path) -> Client:
    return Client(server, tmp_path)
