"""Every setting applies at once, and is there again when the dialog is opened again."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QCheckBox, QComboBox, QDoubleSpinBox, QPlainTextEdit, QPushButton

from app.chat.conversation import DEFAULTS
from app.chat.prompt_edit import CTRL_ENTER
from app.conversations.records import settings_from_json
from app.sampling.presets import BUILT_IN, Preset, presets_to_json
from app.settings import DraftsInText, Settings
from app.settings_dialog import SettingsDialog
from app.theme.palette import DARK, LIGHT
from app.theme.style import Theme
from engine.request import Sampling
from tests.support.app.window_use import part, pick

MINE = Preset("Mine", Sampling(temperature=0.3))


class Opened:
    """A settings dialog on settings in a folder."""

    def __init__(self, qtbot, application, folder):
        stored = QSettings(str(folder / "settings.ini"), QSettings.Format.IniFormat)
        self.settings = Settings(stored)
        self.settings.presets = presets_to_json((MINE,))
        self.theme = Theme(application, self.settings, dark=lambda: False)
        self.opened = []
        self.changes = 0
        self.folder = folder
        self._qtbot = qtbot
        self.show()

    def show(self):
        self.dialog = SettingsDialog(
            self.settings,
            self.theme,
            folders={"Models": self.folder, "Elsewhere": self.folder / "none"},
            opening=self.opened.append,
        )
        self._qtbot.addWidget(self.dialog)
        self.dialog.changed.connect(self._count)

    def _count(self):
        self.changes += 1

    def field(self, kind, name):
        return part(self.dialog, kind, name)

    def choose(self, name, text):
        pick(self.field(QComboBox, name), text)

    def shown(self, name):
        return self.field(QComboBox, name).currentText()


@pytest.fixture
def opened(qtbot, plain_application, tmp_path):
    return Opened(qtbot, plain_application, tmp_path)


def test_the_theme_and_the_font_change_at_once_and_folders_are_opened(opened):
    assert opened.theme.colours is LIGHT
    opened.choose("Theme", "Dark")
    assert opened.theme.colours is DARK
    own = opened.theme.points
    opened.field(QDoubleSpinBox, "Text size").setValue(own + 3)
    assert opened.theme.font.pointSizeF() == own + 3
    family = opened.field(QComboBox, "Font").itemText(1)
    opened.choose("Font", family)
    assert opened.theme.font.family() == family
    opened.show()
    assert (opened.shown("Theme"), opened.shown("Font")) == ("Dark", family)
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
        ("Parallel answers", "2", "parallel", 2),
        ("Drafts in the text", "Off", "drafts_in_text", DraftsInText.OFF),
        ("Send messages with", CTRL_ENTER, "enter_sends", False),
    ):
        opened.choose(label, text)
        assert getattr(opened.settings, name) == value
        opened.show()
        assert opened.shown(label) == text
    assert opened.changes == 9


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
    assert opened.changes == len(presets) - 1 + 3  # the first was chosen already
    opened.show()
    assert opened.shown("When the context is full") == "Stop"
    assert opened.field(QPlainTextEdit, "System prompt").toPlainText() == "Be brief."
    opened.choose("When the context is full", "Leave out the middle")
    opened.choose("Sampling", BUILT_IN[0].name)
    opened.field(QDoubleSpinBox, "Max tokens").setValue(DEFAULTS.max_tokens)
    assert opened.settings.new_settings == ""


def test_the_window_follows(open_window, until):
    window = open_window()
    window.menus.actions["settings"].trigger()
    dialog = part(window, SettingsDialog)
    pick(part(dialog, QComboBox, "Send messages with"), CTRL_ENTER)
    assert not window.composer.field.enter_sends
    part(dialog, QPlainTextEdit).setPlainText("Be brief.")
    assert window.conversation.configured == ("Be brief.", None)
    until(lambda: window.loader.loaded)
    window.conversation.say("hello")
    until(lambda: [one.state for one in window.conversation.branch[1:]] == ["complete"])
    assert window.conversation.record.system_prompt == "Be brief."
    dialog.close()
