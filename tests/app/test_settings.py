"""What is remembered comes back, and what cannot be read is as on the first run."""

import math

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QByteArray, QSettings

from app.settings import Pair, Settings
from engine.process.protocol import Memory
from models.starter import STARTER

PATHS = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), min_size=1, max_size=40)


def opened(folder):
    return Settings(QSettings(str(folder / "settings.ini"), QSettings.Format.IniFormat))


def test_everything_comes_back(tmp_path):
    first, target = opened(tmp_path), "/models/a, b"
    chosen = {  # and what it is on the first run
        "pair": (Pair(target, "lookup+head", "4"), Pair()),
        "font_points": (13.5, None),
        "starter_name": ("small", STARTER.name),
        "theme": ("dark", "system"),
        "font_family": ("Nimbus Sans", ""),
        "enter_sends": (False, True),
        "new_system_prompt": ("Be\nbrief, \\n", ""),
        "new_settings": ('{"max_tokens": 5}', ""),
        "unload_minutes": (15, 0),
    }
    assert {name: getattr(first, name) for name in chosen} == {
        name: usual for name, (_, usual) in chosen.items()
    }
    assert (first.open_windows, first.memory(""), first.paths("targets")) == ((1,), Memory(), ())
    assert first.window(1).conversation is first.window(2).conversation is None
    assert first.window(1).place("window").isEmpty()
    assert first.window(1).switched("rounds", default=True)
    for name, (value, _) in chosen.items():
        setattr(first, name, value)
    first.open_windows = (2, 1)
    first.keep_memory(target, Memory(2048, 8))
    first.keep_memory("", Memory(4096))
    first.keep_read_seconds(target, 0.02)
    first.save()
    again = opened(tmp_path)
    assert {name: getattr(again, name) for name in chosen} == {
        name: value for name, (value, _) in chosen.items()
    }
    assert (again.memory(target), again.memory("")) == (Memory(2048, 8), Memory(4096))
    assert (again.read_seconds(target), again.read_seconds("/models/b")) == (0.02, 0.0)
    assert again.open_windows == (1, 2)


def test_each_window_has_its_own(tmp_path):
    """What the first had in earlier versions is still its own."""
    first, second = opened(tmp_path).window(1), opened(tmp_path).window(2)
    first.unsent = "half a\nthought, and \\ more"
    first.switch("rounds", False)
    assert (second.unsent, first.placed, second.placed) == ("", False, False)
    assert not second.switched("rounds", default=True)  # as in the first, until it has its own
    second.switch("rounds", True)
    second.unsent = "another"
    for window, conversation, place in ((first, 12, b"\x00\x01"), (second, 13, b"\x00\x02")):
        window.conversation = conversation
        assert window.place("window") == QByteArray(b"" if window is first else b"\x00\x01")
        window.keep_place("window", QByteArray(place))
    opened(tmp_path).save()
    first, second = opened(tmp_path).window(1), opened(tmp_path).window(2)
    assert (first.conversation, second.conversation) == (12, 13)
    assert (first.unsent, second.unsent) == ("half a\nthought, and \\ more", "another")
    assert not first.switched("rounds", default=True)
    assert second.switched("rounds", default=False)
    places = [(each.place("window"), each.placed) for each in (first, second)]
    assert places == [(QByteArray(b"\x00\x01"), True), (QByteArray(b"\x00\x02"), True)]
    stored = QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)
    assert [stored.value(key) for key in ("conversation", "shown/rounds")] == ["12", "False"]


def test_what_cannot_be_read_is_left_out(tmp_path):
    keys = ("font_points", "conversation", "places/window", "theme", "windows", "read_seconds/a")
    for number, wrong in enumerate(("", "x", "nan", "1e99", "-3", "1 2", "٣", "٣ ٣")):
        stored = QSettings(str(tmp_path / f"{number}.ini"), QSettings.Format.IniFormat)
        for key in keys:
            stored.setValue(key, wrong)
        read = Settings(stored)
        assert read.font_points is None, wrong
        assert 0.0 <= read.read_seconds("a") < math.inf, wrong
        assert read.theme == "system", wrong
        assert read.window(1).place("window").isEmpty(), wrong
        assert read.window(2).place("window").isEmpty(), wrong
        assert read.open_windows, wrong
        read.window(1).conversation  # noqa: B018  # a number or None, and no error
    for text in ("", "x", "4096", "1 0", "4096 3", "-5 8", "1 2 3"):
        stored.setValue("memory/starter", text)
        assert Settings(stored).memory("") == Memory(), text
    for text in ("x", "80", "70000"):
        stored.setValue("server/port", text)
        assert Settings(stored).server_port == 8737, text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PATHS, max_size=12))
def test_paths_are_remembered_newest_first_and_can_be_forgotten(tmp_path, paths):
    known = opened(tmp_path)
    for path in paths:
        known.remember_path("targets", path)
    expected = tuple(dict.fromkeys(reversed(paths)))[:8]
    assert known.paths("targets")[: len(expected)] == expected
    (tmp_path / "there").mkdir(exist_ok=True)
    for name in ("there", "gone"):
        known.remember_path("drafters", str(tmp_path / name))
    assert known.opened_paths("drafters") == (str(tmp_path / "there"),)
    known.forget_path("drafters", str(tmp_path / "there"))
    assert known.paths("drafters") == (str(tmp_path / "gone"),)
