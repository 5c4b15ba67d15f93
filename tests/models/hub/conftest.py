"""A model on a hub on loopback, and who fetches it."""

import pytest

from tests.support.models.hub_models import NAME, Client, loopback_session, model_files
from tests.support.models.hub_server import serving_hub


@pytest.fixture(autouse=True, scope="module")
def session():
    with loopback_session():
        yield


@pytest.fixture
def server():
    with serving_hub({NAME: model_files()}) as served:
        yield served


@pytest.fixture
def client(server, tmp_path):
    return Client(server, tmp_path)
