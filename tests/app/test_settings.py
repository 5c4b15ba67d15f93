"""What is remembered comes back, and what cannot be read is as on the first run."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QByteArray, QSettings

from app.settings import Pair, Settings
from engine.events import Stats
from models.starter import STARTER

PATHS = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), min_size=1, max_size=40)


def opened(folder: Path) -> Settings:
    return Settings(QSettings(str(folder / "settings.ini"), QSettings.Format.IniFormat))


def test_everything_comes_back(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.pair = Pair("/models/a, b", "lookup+head", "4")
    first.font_points = 13.5
    first.conversation = 12
    first.unsent = "half a\nthought, and \\ more"
    first.starter_name = "small"
    first.theme, first.font_family, first.enter_sends = "dark", "Nimbus Sans", False
    first.new_system_prompt, first.new_settings = "Be\nbrief, \\n", '{"max_tokens": 5}'
    first.switch("rounds", False)
    first.keep_place("window", QByteArray(b"\x00\x01"))
    first.measure("tiny", Stats(plain=10, plain_seconds=0.5))
    first.save()
    again = opened(tmp_path)
    assert again.pair == Pair("/models/a, b", "lookup+head", "4")
    assert (again.font_points, again.conversation) == (13.5, 12)
    assert again.unsent == "half a\nthought, and \\ more"
    assert again.starter_name == "small"
    assert (again.theme, again.font_family, again.enter_sends) == ("dark", "Nimbus Sans", False)
    assert (again.new_system_prompt, again.new_settings) == ("Be\nbrief, \\n", '{"max_tokens": 5}')
    assert not again.switched("rounds", default=True)
    assert again.place("window") == QByteArray(b"\x00\x01")
    assert again.reference("tiny") == Stats(plain=10, plain_seconds=0.5)


def test_the_first_run(tmp_path: Path) -> None:
    fresh = opened(tmp_path)
    assert fresh.pair == Pair()
    assert fresh.font_points is None
    assert (fresh.theme, fresh.font_family, fresh.enter_sends) == ("system", "", True)
    assert (fresh.new_system_prompt, fresh.new_settings) == ("", "")
    assert fresh.conversation is None
    assert fresh.reference("tiny") is None
    assert fresh.paths("targets") == ()
    assert fresh.place("window").isEmpty()
    assert fresh.switched("rounds", default=True)


def test_the_starter_model_has_its_own_name(tmp_path: Path) -> None:
    assert opened(tmp_path).starter_name == STARTER.name


@pytest.mark.parametrize("wrong", ["", "x", "nan", "1e99", "-3", "1 2", "٣", "٣ ٣"])
def test_what_cannot_be_read_is_left_out(tmp_path: Path, wrong: str) -> None:
    stored = QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)
    for key in ("font_points", "conversation", "plain/tiny", "places/window", "theme"):
        stored.setValue(key, wrong)
    read = Settings(stored)
    assert read.font_points is None
    assert read.theme == "system"
    assert read.place("window").isEmpty()
    read.reference("tiny")
    read.conversation  # noqa: B018  # a number or None, and no error


def test_plain_rounds_add_up_and_age(tmp_path: Path) -> None:
    known = opened(tmp_path)
    for _ in range(3):
        known.measure("tiny", Stats(plain=1500, plain_seconds=15.0))
    reference = known.reference("tiny")
    assert reference is not None
    assert reference.plain == 2250
    assert reference.plain_seconds == pytest.approx(22.5)
    known.measure("tiny", Stats())
    assert known.reference("tiny") == reference


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PATHS, max_size=12))
def test_paths_are_remembered_newest_first(tmp_path: Path, paths: list[str]) -> None:
    known = opened(tmp_path)
    for path in paths:
        known.remember_path("targets", path)
    expected = tuple(dict.fromkeys(reversed(paths)))[:8]
    assert known.paths("targets")[: len(expected)] == expected


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1, max_size=30))
def test_any_name_has_a_reference(tmp_path: Path, name: str) -> None:
    known = opened(tmp_path)
    known.measure(name, Stats(plain=8, plain_seconds=1.0))
    assert known.reference(name) is not None
