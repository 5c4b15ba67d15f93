"""Targets whose files can be told apart, and a folder for what is kept."""

from dataclasses import replace

import pytest

import engine.conversation.kept_prefixes
import engine.core.decoder
from engine.conversation.loading import load
from models.model_folder import inspect
from tests.support.engine import tiny
from tests.support.engine.helpers import build_wide
from tests.support.engine.kept import ROWS
from tests.support.engine.sessions import VOCABULARY


@pytest.fixture(autouse=True, scope="module")
def short_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.core.decoder, "PREFILL_ROWS", ROWS)
        patch.setattr(engine.conversation.kept_prefixes, "PREFILL_ROWS", ROWS)
        yield


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    """A loaded target of an architecture; its files are only there to be told apart."""
    made = {}

    def target(architecture):
        if architecture not in made:
            folder = tmp_path_factory.mktemp(architecture)
            tiny.write_folder(architecture.removesuffix(" wide"), folder, layers=2)
            made[architecture] = load(inspect(folder))
            if architecture.endswith(" wide"):
                plain = architecture.removesuffix(" wide")
                wide = build_wide(plain, vocabulary=VOCABULARY, layers=2)
                made[architecture] = replace(made[architecture], model=wide)
        return made[architecture]

    return target


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "kept"
