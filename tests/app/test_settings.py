"""What is set is remembered and applies at once, what cannot be read is as on the first run; what
is kept of documents and answers can be deleted; files get names that every file system takes."""

import math
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QByteArray, QSettings, QStandardPaths
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFileDialog,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QWidget,
)

from app.chat.conversation import DEFAULTS
from app.chat.prompt_edit import CTRL_ENTER
from app.conversations.records import settings_from_json
from app.files import ask_to_save, file_name, last_folder, set_last_folder
from app.sampling.presets import BUILT_IN, Preset, presets_to_json
from app.settings import (
    LEAST_FONT_POINTS,
    MOST_FONT_POINTS,
    DraftsInText,
    Pair,
    Settings,
)
from app.settings_dialog import SettingsDialog
from app.theme.palette import DARK, LIGHT
from app.theme.style import Theme
from engine import earlier_answers
from engine.process.protocol import Memory
from engine.request import Sampling
from models.starter import STARTER
from tests.support.app.window_use import part, pick


def stored_in(folder):
    return Settings(QSettings(str(folder / "settings.ini"), QSettings.Format.IniFormat))


def test_everything_comes_back(tmp_path):
    first, target = stored_in(tmp_path), "/models/a, b"
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
    again = stored_in(tmp_path)
    assert {name: getattr(again, name) for name in chosen} == {
        name: value for name, (value, _) in chosen.items()
    }
    assert (again.memory(target), again.memory("")) == (Memory(2048, 8), Memory(4096))
    assert (again.read_seconds(target), again.read_seconds("/models/b")) == (0.02, 0.0)
    assert again.open_windows == (1, 2)


def test_each_window_has_its_own(tmp_path):
    """What the first had in earlier versions is still its own."""
    first, second = stored_in(tmp_path).window(1), stored_in(tmp_path).window(2)
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
    stored_in(tmp_path).save()
    first, second = stored_in(tmp_path).window(1), stored_in(tmp_path).window(2)
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


def test_paths_are_remembered_newest_first_and_can_be_forgotten(tmp_path):
    known = stored_in(tmp_path)
    paths = [*"abcdef", "a, b", 'é;"', "c:\\n", "@Invalid()", "%20", " ", "b", "a, b"]
    for path in paths:
        known.remember_path("targets", path)
    known.save()
    assert stored_in(tmp_path).paths("targets") == tuple(dict.fromkeys(reversed(paths)))[:8]
    (tmp_path / "there").mkdir()
    for name in ("there", "gone"):
        known.remember_path("drafters", str(tmp_path / name))
    assert known.opened_paths("drafters") == (str(tmp_path / "there"),)
    known.forget_path("drafters", str(tmp_path / "there"))
    assert known.paths("drafters") == (str(tmp_path / "gone"),)


def test_the_theme_is_the_systems_unless_one_is_chosen_as_the_font_is(plain_application, tmp_path):
    settings = stored_in(tmp_path)
    dark = [False]
    theme = Theme(plain_application, settings, dark=lambda: dark[0])
    assert theme.colours is LIGHT
    changes = []
    theme.changed.connect(lambda: changes.append(theme.colours))
    dark[0] = True
    theme.refresh()
    assert theme.colours is DARK
    assert plain_application.palette().window().color().name() == DARK.paper
    assert changes == [DARK]
    for chosen, colours in (("light", LIGHT), ("dark", DARK), ("system", DARK)):
        settings.theme = chosen
        theme.refresh()
        assert theme.colours is colours
        assert Theme(plain_application, settings, dark=lambda: True).colours is colours
    own = theme.font.family()
    for chosen, family in (("Nimbus Sans", "Nimbus Sans"), ("", own)):
        settings.font_family = chosen
        theme.refresh()
        assert theme.font.family() == family


def test_text_sizes_stay_in_bounds_and_are_remembered(plain_application, tmp_path):
    settings = stored_in(tmp_path)
    theme = Theme(plain_application, settings)
    own = theme.points
    for _ in range(60):
        theme.zoom(+1.0)
    assert theme.points == theme.font.pointSizeF() == MOST_FONT_POINTS
    assert Theme(plain_application, settings).points == MOST_FONT_POINTS
    for _ in range(60):
        theme.zoom(-1.0)
    assert theme.points == LEAST_FONT_POINTS
    theme.zoom(0.0)
    assert theme.points == own


MINE = Preset("Mine", Sampling(temperature=0.3))


class Opened:
    """A settings dialog on settings in a folder."""

    def __init__(self, qtbot, application, folder):
        self.settings, self.folder, self._qtbot = stored_in(folder), folder, qtbot
        self.settings.presets = presets_to_json((MINE,))
        self.theme = Theme(application, self.settings, dark=lambda: False)
        self.opened, self.changes = [], []
        self.show()

    def show(self):
        folders = {"Models": self.folder, "Elsewhere": self.folder / "none"}
        self.dialog = SettingsDialog(
            self.settings, self.theme, folders=folders, opening=self.opened.append
        )
        self._qtbot.addWidget(self.dialog)
        self.dialog.changed.connect(lambda: self.changes.append(1))

    def field(self, kind, name):
        return part(self.dialog, kind, name)

    def choose(self, name, text):
        pick(self.field(QComboBox, name), text)

    def shown(self, name):
        return self.field(QComboBox, name).currentText()


@pytest.fixture
def opened(qtbot, plain_application, tmp_path):
    return Opened(qtbot, plain_application, tmp_path)


def test_the_font_changes_at_once_and_folders_are_opened(opened):
    own, family = opened.theme.points, opened.field(QComboBox, "Font").itemText(1)
    opened.field(QDoubleSpinBox, "Text size").setValue(own + 3)
    opened.choose("Font", family)
    assert (opened.theme.font.pointSizeF(), opened.theme.font.family()) == (own + 3, family)
    opened.show()
    assert opened.shown("Font") == family
    assert opened.field(QDoubleSpinBox, "Text size").value() == own + 3
    opened.field(QPushButton, "Default").click()
    assert opened.settings.font_points is None
    assert opened.field(QDoubleSpinBox, "Text size").value() == opened.theme.points == own
    opened.field(QPushButton, "Open the folder: Models").click()
    assert opened.opened == [opened.folder]
    assert not opened.field(QPushButton, "Open the folder: Elsewhere").isEnabled()


def test_a_box_or_a_choice_sets_its_setting(opened):
    for label, name, usual in (
        ("Notify me when an answer is ready", "notifications", True),
        ("Cache documents on disk", "keep_documents", True),
        ("Use past answers to draft faster", "learn", False),
    ):
        assert getattr(opened.settings, name) == usual
        for on in (not usual, usual):
            opened.field(QCheckBox, label).click()
            assert getattr(opened.settings, name) == on
            opened.show()
            assert opened.field(QCheckBox, label).isChecked() == on
    for label, text, name, value in (
        ("Theme", "Dark", "theme", "dark"),
        ("Parallel answers", "2", "parallel", 2),
        ("Drafts in the text", "Off", "drafts_in_text", DraftsInText.OFF),
        ("Send messages with", CTRL_ENTER, "enter_sends", False),
    ):
        opened.choose(label, text)
        assert getattr(opened.settings, name) == value
        opened.show()
        assert opened.shown(label) == text
    assert len(opened.changes) == 9, "the theme follows by itself"
    assert opened.theme.colours is DARK


def test_new_conversations_begin_as_is_chosen_here(opened):
    assert opened.settings.new_settings == ""
    presets = (*BUILT_IN, MINE)
    for preset in presets:
        opened.choose("Sampling", preset.name)
        new = settings_from_json(opened.settings.new_settings) or DEFAULTS
        assert new == replace(DEFAULTS, sampling=preset.sampling)
        opened.show()
        assert opened.shown("Sampling") == preset.name
    opened.choose("When the context is full", "Stop")
    opened.field(QDoubleSpinBox, "Max tokens").setValue(300)
    opened.field(QPlainTextEdit, "System prompt").setPlainText("Be brief.")
    new = settings_from_json(opened.settings.new_settings)
    assert new == replace(DEFAULTS, sampling=MINE.sampling, overflow="stop", max_tokens=300)
    assert opened.settings.new_system_prompt == "Be brief."
    assert len(opened.changes) == len(presets) - 1 + 3  # the first was chosen already
    opened.show()
    assert opened.shown("When the context is full") == "Stop"
    assert opened.field(QPlainTextEdit, "System prompt").toPlainText() == "Be brief."
    opened.choose("When the context is full", "Leave out the middle")
    opened.choose("Sampling", BUILT_IN[0].name)
    opened.field(QDoubleSpinBox, "Max tokens").setValue(DEFAULTS.max_tokens)
    assert opened.settings.new_settings == ""


def test_the_window_follows(open_window):
    window = open_window()
    window.menus.actions["settings"].trigger()
    dialog = part(window, SettingsDialog)
    pick(part(dialog, QComboBox, "Send messages with"), CTRL_ENTER)
    assert not window.composer.field.enter_sends
    part(dialog, QPlainTextEdit).setPlainText("Be brief.")
    assert window.conversation.configured == ("Be brief.", None)
    dialog.close()


def change(application, *wanted):
    """Switch learning on or off, one change after the other."""
    for learn in wanted:
        application.settings.learn = learn
        application.settings_changed.emit()


def locked(folder):
    """The lock of a folder, as another program has it."""
    return FileLock(folder.with_name(f".{folder.name}.lock"))


@pytest.fixture
def learning(open_window, until):
    """A window where earlier answers are kept, and the file of one."""
    window = open_window()
    folder = window.application.store.earlier_answers
    change(window.application, True)
    until(folder.exists)
    (folder / "some.json").write_text("{}")
    return window, folder / "some.json"


def test_both_are_kept_while_that_is_switched_on(open_window, until):
    window = open_window("ready take load take load take load take load take load serve")
    application, loads, troubles = window.application, [], []
    window.engine.loaded.connect(loads.append)
    application.troubled.connect(troubles.append)
    until(lambda: len(loads) == 1)
    load, folder = application.engine.load, application.store.earlier_answers
    with mock.patch.object(application.engine, "load", side_effect=load) as asked:
        application.settings_changed.emit()
        assert not folder.exists()
        change(application, True)
        until(lambda: len(loads) == 2 and folder.exists())
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "some.json").write_text("{}")
        with mock.patch("shutil.rmtree", side_effect=OSError(13, "Permission denied")):
            change(application, False)
            until(lambda: len(loads) == 3 and troubles)
        assert str(folder) in troubles[0].message
        application.settings_changed.emit()  # another change tries again
        until(lambda: not folder.exists())
        for keep in (False, True):
            application.settings.keep_documents = keep
            application.settings_changed.emit()
            until(lambda keep=keep: len(loads) == 4 + keep)
    told = [(call.kwargs["learn"], call.kwargs["keep_bytes"]) for call in asked.call_args_list]
    assert told == [(True, None), (False, None), (False, 0), (False, None)]
    assert len(troubles) == 1


@pytest.mark.quick(1)
@pytest.mark.parametrize("changes", [(False,), (False, True), (False, True, False)])
def test_the_window_waits_for_no_other_program_and_the_last_change_holds(learning, changes):
    window, file = learning
    with locked(file.parent):
        change(window.application, *changes)
        assert file.exists(), "the other program has it still"
    window.store.folders().result()  # which the store does after all that it was asked for before
    assert not file.exists()
    assert file.parent.exists() == changes[-1]


@pytest.mark.parametrize("hangs", [True, False])
def test_what_was_switched_off_is_deleted_before_it_closes_unless_another_program_hangs(
    learning, monkeypatch, hangs
):
    monkeypatch.setattr(earlier_answers, "LOCK_SECONDS", 0.01)
    window, file = learning
    with locked(file.parent) if hangs else nullcontext():
        change(window.application, False)
        window.close()
    assert file.exists() == file.parent.exists() == hangs


def test_what_is_kept_of_documents_can_be_deleted(open_window, until, tmp_path):
    window = open_window()
    window.store.kept = kept = tmp_path / "kept"
    (kept / "some").mkdir(parents=True)
    (kept / "some" / "block.safetensors").write_bytes(b"x" * 1_500_000)
    window.menus.actions["settings"].trigger()
    dialog = part(window, SettingsDialog)
    buttons = dialog.findChildren(QPushButton)
    (deletion,) = (one for one in buttons if one.text().startswith("Delete"))

    def said():
        return " ".join(label.text() for label in dialog.findChildren(QLabel))

    until(deletion.isEnabled)
    assert "1.50 MB" in said()
    with mock.patch("engine.conversation.kept_blocks._LOCK_SECONDS", 0.01), locked(kept):
        deletion.click()
        until(lambda: window.notices.texts)
    assert deletion.isEnabled()
    assert kept.exists()
    deletion.click()
    until(lambda: not deletion.isEnabled())
    assert not kept.exists()
    assert "empty" in said()


@given(st.text(max_size=200))
def test_any_title_gives_a_name_which_stays_readable(tmp_path_factory, title):
    name = file_name(f"{title}.json")
    assert name.endswith(".json")
    assert len(name) <= 90
    path = tmp_path_factory.getbasetemp() / name
    assert path.parent == tmp_path_factory.getbasetemp(), "nowhere else"
    path.write_text("")
    path.unlink()
    assert file_name("What is 3/4 of 1.5?.md") == "What is 3 4 of 1.5.md"
    assert file_name("...md") == "Conversation.md"


def test_a_dialog_starts_in_documents_and_then_where_it_was_last(qtbot, tmp_path, monkeypatch):
    parent = QWidget()
    qtbot.addWidget(parent)
    set_last_folder("")
    folders = {"DocumentsLocation": tmp_path / "Documents", "HomeLocation": tmp_path}
    monkeypatch.setattr(QStandardPaths, "writableLocation", lambda place: str(folders[place.name]))
    assert last_folder() == str(tmp_path)
    documents = str(tmp_path / "Documents")
    Path(documents).mkdir()
    chosen = []
    ask_to_save(parent, "Save", "A title?.md", chosen.append)
    (dialog,) = parent.findChildren(QFileDialog)
    assert dialog.directory().absolutePath() == documents
    assert Path(dialog.selectedFiles()[0]).name == "A title.md"
    dialog.setDirectory(str(tmp_path))
    dialog.selectFile("out.md")
    dialog.accept()
    assert chosen == [tmp_path / "out.md"]
    assert last_folder() == str(tmp_path)
    set_last_folder(str(tmp_path / "gone"))
    assert last_folder() == documents
