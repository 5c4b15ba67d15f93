"""The settings dialog; each setting applies at once.

Knows which settings there are and how they are shown. Changes are sent as signals.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import get_args

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import (
    QDesktopServices,
    QFontDatabase,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from app.chat.conversation import DEFAULTS
from app.chat.prompt_edit import CTRL_ENTER
from app.choice_box import Choice, ChoiceBox
from app.conversations.records import settings_from_json, settings_to_json
from app.sampling.dialog import MAX_TOKENS, OVERFLOWS, NumberBox
from app.sampling.presets import BUILT_IN, find_preset, presets_from_json
from app.settings import (
    LEAST_FONT_POINTS,
    MOST_FONT_POINTS,
    MOST_PARALLEL,
    DraftsInText,
    Settings,
    ThemeChoice,
)
from app.theme.dialog import Dialog
from app.theme.edged_check_box import EdgedCheckBox
from app.theme.labels import closing, plain_label
from app.theme.style import TABS, Theme
from engine.request import Overflow
from models.in_words import size

_SYSTEM_FONT = "The system’s font"
_THEMES = (
    Choice("system", "As the system"),
    Choice("light", "Light"),
    Choice("dark", "Dark"),
)
_DRAFTS = (
    Choice(DraftsInText.FADE, "Fade", "Guesses appear ahead; the colours of accepted words fade"),
    Choice(DraftsInText.KEEP, "Keep", "The colours stay until the conversation is opened again"),
    Choice(DraftsInText.OFF, "Off", "Only the text"),
)
_KEYS = (
    Choice("enter", "Enter", "Shift+Enter starts a line"),
    Choice("ctrl", CTRL_ENTER, "Enter starts a line"),
)


def open_folder(folder: Path) -> None:
    """Show a folder in the system's file manager."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))


class SettingsDialog(Dialog):
    """All settings, on two pages; show it with `show`.

    Signals: `changed()`: a setting other than the theme's changed; `deletion_asked()`: delete what
    is kept of documents; `tools_asked()`: show the panel of tools.
    """

    changed = Signal()
    deletion_asked = Signal()
    tools_asked = Signal()

    def __init__(
        self,
        settings: Settings,
        theme: Theme,
        *,
        folders: Mapping[str, Path],
        opening: Callable[[Path], None] = open_folder,
        parent: QWidget | None = None,
    ) -> None:
        """`folders` are shown under their names."""
        super().__init__(parent)
        self._settings, self._theme, self._opening = settings, theme, opening
        self._new = settings_from_json(settings.new_settings) or DEFAULTS
        self.setWindowTitle("Settings")
        pages = QTabWidget()
        pages.setDocumentMode(True)
        pages.setAccessibleName("Pages")
        pages.tabBar().setDrawBase(False)
        pages.setStyleSheet(TABS)
        pages.addTab(self._general(folders), "General")
        pages.addTab(self._new_conversations(), "New conversations")
        column = QVBoxLayout(self)
        column.addWidget(pages, 1)
        column.addWidget(closing(self))
        self.setMinimumWidth(660)
        for button in self.findChildren(QPushButton):
            button.setAutoDefault(False)  # Enter in a field presses none of them

    def show_kept(self, size_bytes: int) -> None:
        """Show the size of what is kept of documents."""
        self._kept.setText(f"{size(size_bytes)} kept now." if size_bytes else "Nothing is kept.")
        self._delete.setEnabled(size_bytes > 0)

    # Pages

    def _general(self, folders: Mapping[str, Path]) -> QWidget:
        form = _Form()
        theme = _choices("Theme", _THEMES, self._settings.theme, self._choose_theme)
        form.add("Theme", theme)
        form.add("Font", self._font_box())
        form.add("Text size", self._size_box())
        key = "enter" if self._settings.enter_sends else "ctrl"
        form.add("Send a message with", _choices("Send with", _KEYS, key, self._choose_key))
        drafts = _choices(
            "Drafts in the text", _DRAFTS, self._settings.drafts_in_text, self._choose_drafts
        )
        form.add("Drafts in the text", drafts)
        form.add("Answers at once", self._parallel_box())
        form.add("Earlier answers", self._learn_box())
        form.add("Documents", self._keep_box())
        form.add("Tools", self._tools_row())
        form.add("Notifications", self._notifications_box())
        for name, folder in folders.items():
            form.add(name, self._folder_row(name, folder))
        return form

    def _new_conversations(self) -> QWidget:
        form = _Form()
        self._own = presets_from_json(self._settings.presets)
        presets = (*BUILT_IN, *self._own)
        chosen = find_preset(self._new.sampling, presets)
        form.add(
            "Sampling",
            _choices(
                "Sampling",
                tuple(Choice(one.name, one.name, one.line or "Your preset") for one in presets),
                chosen.name if chosen else "",
                self._choose_preset,
            ),
        )
        self._max_tokens = NumberBox(MAX_TOKENS)
        self._max_tokens.setValue(self._new.max_tokens)
        self._max_tokens.valueChanged.connect(self._choose_max_tokens)
        form.add(MAX_TOKENS.name, self._max_tokens)
        overflow = _choices(
            "When the context is full", OVERFLOWS, self._new.overflow, self._choose_overflow
        )
        form.add("When the context is full", overflow)
        self._prompt = QPlainTextEdit(self._settings.new_system_prompt)
        self._prompt.setTabChangesFocus(True)
        self._prompt.setPlaceholderText("Instructions for the model, before each new conversation")
        self._prompt.textChanged.connect(self._keep_prompt)
        form.add("System prompt", self._prompt)
        note = _Note(
            "Other conversations stay as they are. Each has its own settings: see the menu Answer."
        )
        form.add("", note)
        return form

    def _font_box(self) -> QComboBox:
        box = _Steady()
        box.addItem(_SYSTEM_FONT, "")
        for family in QFontDatabase.families():
            if not QFontDatabase.isPrivateFamily(family):
                box.addItem(family, family)
        box.setCurrentIndex(max(0, box.findData(self._settings.font_family)))
        box.setSizeAdjustPolicy(box.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        box.activated.connect(lambda place: self._choose_family(str(box.itemData(place))))
        return box

    def _size_box(self) -> QWidget:
        self._size = QDoubleSpinBox()
        self._size.setDecimals(1)
        self._size.setRange(LEAST_FONT_POINTS, MOST_FONT_POINTS)
        self._size.setSuffix(" points")
        self._size.setAccessibleName("Text size")
        self._size.setValue(self._theme.points)
        self._size.valueChanged.connect(self._choose_size)
        normal = QPushButton("Normal")
        normal.clicked.connect(self._choose_normal_size)
        return _row(self._size, normal)

    def _folder_row(self, name: str, folder: Path) -> QWidget:
        path = plain_label(str(folder))
        path.setWordWrap(True)
        path.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        button = QPushButton("Open")
        button.setAccessibleName(f"Open the folder: {name}")
        button.setEnabled(folder.is_dir())
        button.clicked.connect(lambda: self._opening(folder))
        return _row(path, button)

    def _parallel_box(self) -> QWidget:
        numbers = (str(number) for number in range(1, MOST_PARALLEL + 1))
        choices = tuple(Choice(number, number) for number in numbers)
        box = _choices(
            "Answers at once", choices, str(self._settings.parallel), self._choose_parallel
        )
        box.setToolTip("Each takes memory. Changes load the model again.")
        return box

    def _learn_box(self) -> QWidget:
        return _explained_box(
            "Learn from earlier answers: drafts only, on this machine",
            "Answers are then also kept as tokens in a private file, and drafts are copied from "
            "them too. When you delete a conversation or a message, or switch this off, that file "
            "is deleted and begins anew. Changes load the model again.",
            on=self._settings.learn,
            chosen=self._choose_learn,
        )

    def _keep_box(self) -> QWidget:
        self._kept = plain_label()
        self._delete = QPushButton("Delete what is kept")
        self._delete.setEnabled(False)
        self._delete.clicked.connect(self.deletion_asked)
        return _explained_box(
            "Keep on disk what the model has read of documents",
            "A document is then read once, also after a restart, and so are long instructions of "
            "programs that use the local server. The files are private and contain the text; "
            "deleting the document or a conversation with it deletes them. "
            "Changes load the model again.",
            _row(self._kept, self._delete),
            on=self._settings.keep_documents,
            chosen=self._choose_keep,
        )

    def _tools_row(self) -> QWidget:
        button = QPushButton("Set up…")
        button.setAccessibleName("Set up tools")
        button.clicked.connect(self.tools_asked)
        return _row(plain_label("What a model may read, ask and run, if you allow it"), button)

    def _notifications_box(self) -> QWidget:
        box = EdgedCheckBox("When an answer ends while you use another program")
        box.setChecked(self._settings.notifications)
        box.toggled.connect(self._choose_notifications)
        return box

    # Changes

    def _choose_theme(self, chosen: str) -> None:
        self._settings.theme = next(one for one in get_args(ThemeChoice) if one == chosen)
        self._theme.refresh()

    def _choose_family(self, family: str) -> None:
        self._settings.font_family = family
        self._theme.refresh()

    def _choose_size(self, points: float) -> None:
        self._settings.font_points = points
        self._theme.refresh()

    def _choose_normal_size(self) -> None:
        self._settings.font_points = None
        self._size.setValue(self._theme.points)
        self._settings.font_points = None  # setting the box has stored a number
        self._theme.refresh()

    def _choose_key(self, chosen: str) -> None:
        self._settings.enter_sends = chosen == "enter"
        self.changed.emit()

    def _choose_drafts(self, chosen: str) -> None:
        self._settings.drafts_in_text = DraftsInText(chosen)
        self.changed.emit()

    def _choose_parallel(self, chosen: str) -> None:
        self._settings.parallel = int(chosen)
        self.changed.emit()

    def _choose_learn(self, on: bool) -> None:
        self._settings.learn = on
        self.changed.emit()

    def _choose_keep(self, on: bool) -> None:
        self._settings.keep_documents = on
        self.changed.emit()

    def _choose_notifications(self, on: bool) -> None:
        self._settings.notifications = on
        self.changed.emit()

    def _choose_preset(self, name: str) -> None:
        preset = next(one for one in (*BUILT_IN, *self._own) if one.name == name)
        self._keep_new(sampling=preset.sampling)

    def _choose_max_tokens(self, tokens: float) -> None:
        self._keep_new(max_tokens=round(tokens))

    def _choose_overflow(self, chosen: str) -> None:
        self._keep_new(overflow=next(one for one in get_args(Overflow) if one == chosen))

    def _keep_new(self, **values: object) -> None:
        self._new = replace(self._new, **values)  # type: ignore[arg-type]
        new = None if self._new == DEFAULTS else self._new
        self._settings.new_settings = settings_to_json(new)
        self.changed.emit()

    def _keep_prompt(self) -> None:
        self._settings.new_system_prompt = self._prompt.toPlainText()
        self.changed.emit()


class _Form(QWidget):
    """Rows of a name and a field."""

    def __init__(self) -> None:
        super().__init__()
        self._rows = QFormLayout(self)
        self._rows.setContentsMargins(20, 20, 20, 12)
        self._rows.setHorizontalSpacing(18)
        self._rows.setVerticalSpacing(12)
        self._rows.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self._rows.setLabelAlignment(Qt.AlignmentFlag.AlignRight)

    def add(self, name: str, widget: QWidget) -> None:
        label = plain_label(name)
        label.setBuddy(widget)
        if name and not widget.accessibleName():
            widget.setAccessibleName(name)
        self._rows.addRow(label, widget)


class _Note(QLabel):
    """Wrapped lines that are never cut off: a page of tabs does not ask for their height."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.setMinimumHeight(self.heightForWidth(self.width()))


class _Steady(QComboBox):
    """A combo box that scrolling past it does not change."""

    def wheelEvent(self, event: object) -> None:
        event.ignore()  # type: ignore[attr-defined]


def _choices(
    name: str, choices: tuple[Choice, ...], value: str, chosen: Callable[[str], None]
) -> ChoiceBox:
    box = ChoiceBox(name)
    box.set_choices(choices)
    box.set_value(value)
    box.chosen.connect(chosen)
    return box


def _explained_box(
    words: str, explained: str, *below: QWidget, on: bool, chosen: Callable[[bool], None]
) -> QWidget:
    """Return a check box with its explanation and more widgets below it."""
    box = EdgedCheckBox(words)
    box.setAccessibleName(words)
    box.setAccessibleDescription(explained)
    box.setChecked(on)
    box.toggled.connect(chosen)
    column = QWidget()
    down = QVBoxLayout(column)
    down.setContentsMargins(0, 0, 0, 0)
    for widget in (box, _Note(explained), *below):
        down.addWidget(widget)
    return column


def _row(*widgets: QWidget) -> QWidget:
    """Return the widgets side by side; the first takes the free width."""
    row = QWidget()
    across = QHBoxLayout(row)
    across.setContentsMargins(0, 0, 0, 0)
    for place, widget in enumerate(widgets):
        across.addWidget(widget, 0 if place else 1)
    return row
