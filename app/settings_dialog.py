"""The settings dialog; each setting applies at once.

Knows which settings there are and how they are shown. Changes are sent as signals.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QPoint, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QFontDatabase
from PySide6.QtWidgets import (
    QDoubleSpinBox,
    QFormLayout,
    QToolButton,
    QWhatsThis,
    QWidget,
)

from app.chat.conversation import DEFAULTS
from app.chat.prompt_edit import CTRL_ENTER
from app.choice_box import Choice, ChoiceBox
from app.conversations.records import settings_from_json, settings_to_json
from app.layout import column_of, quiet_tabs, row_of, text_area, text_button
from app.sampling.dialog import MAX_TOKENS, OVERFLOWS, NumberBox
from app.sampling.presets import BUILT_IN, find_preset, presets_from_json
from app.settings import (
    LEAST_FONT_POINTS,
    MOST_FONT_POINTS,
    MOST_PARALLEL,
    DraftsInText,
    Settings,
)
from app.theme.dialog import Dialog
from app.theme.labels import closing, plain_label
from app.theme.style import Theme
from app.theme.widgets import EdgedCheckBox
from models.in_words import size

_SYSTEM_FONT = "System font"
_THEMES = (
    Choice("system", "Match system"),
    Choice("light", "Light"),
    Choice("dark", "Dark"),
)
_DRAFTS = (
    Choice(DraftsInText.FADE, "Fade", "Drafts appear ahead; accepted words fade to plain text"),
    Choice(DraftsInText.KEEP, "Keep", "Accepted words stay coloured"),
    Choice(DraftsInText.OFF, "Off", "Only the finished text"),
)
_KEYS = (
    Choice("True", "Enter", "Shift+Enter starts a new line"),
    Choice("False", CTRL_ENTER, "Enter starts a new line"),
)

_PARALLEL = "Each answer uses memory. Changing this reloads the model."
_LEARN = (
    "Drafts are also copied from past answers, which stay in a private file on this computer. "
    "Deleting a conversation or a message, or turning this off, deletes that file. "
    "Changing this reloads the model."
)
_CACHE = (
    "The model reads a document, or the long instructions of a program that uses the local "
    "server, only once. The cache is private and contains the text. Deleting the document "
    "or its conversation deletes its part. Changing this reloads the model."
)
_EXISTING = "Existing conversations keep their own settings (menu Answer)."


def open_folder(folder: Path) -> None:
    """Show a folder in the system's file manager."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))


class SettingsDialog(Dialog):
    """All settings, on five pages; show it with `show`. Explanations are after a "?".

    Signals: `changed()`: a setting other than the theme's changed; `deletion_asked()`: delete
    the cache of documents; `tools_asked()`: show the panel of tools.
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
        pages = quiet_tabs("Pages")
        pages.addTab(self._general(), "General")
        pages.addTab(self._appearance(), "Appearance")
        pages.addTab(self._new_conversations(), "New conversations")
        pages.addTab(self._speed(), "Speed")
        pages.addTab(self._storage(folders), "Storage")
        column_of((pages, 1), closing(self), on=self)
        self.setMinimumWidth(620)

    def show_kept(self, size_bytes: int) -> None:
        """Show the size of the cache of documents."""
        self._kept.setText(
            f"The cache uses {size(size_bytes)}." if size_bytes else "The cache is empty."
        )
        self._delete.setEnabled(size_bytes > 0)

    # Pages

    def _general(self) -> QWidget:
        form = _Form()
        form.add("Send messages with", self._choice("enter_sends", _KEYS))
        words = "Notify me when an answer is ready"
        form.add("Notifications", self._tick("notifications", words))
        tools = text_button("Set up…", self.tools_asked.emit, name="Set up tools")
        form.add("Tools", _row(plain_label("Choose the tools that models may call"), tools))
        return form

    def _appearance(self) -> QWidget:
        form = _Form()
        form.add("Theme", self._choice("theme", _THEMES))
        families = [f for f in QFontDatabase.families() if not QFontDatabase.isPrivateFamily(f)]
        fonts = (Choice("", _SYSTEM_FONT), *(Choice(family, family) for family in families))
        form.add("Font", self._choice("font_family", fonts))
        self._size = QDoubleSpinBox()
        self._size.setDecimals(1)
        self._size.setRange(LEAST_FONT_POINTS, MOST_FONT_POINTS)
        self._size.setSuffix(" points")
        self._size.setAccessibleName("Text size")
        self._size.setValue(self._theme.points)
        self._size.valueChanged.connect(self._keep("font_points"))
        normal = text_button("Default", self._choose_normal_size)
        form.add("Text size", _row(self._size, normal))
        form.add("Drafts in the text", self._choice("drafts_in_text", _DRAFTS))
        return form

    def _speed(self) -> QWidget:
        form = _Form()
        numbers = map(str, range(1, MOST_PARALLEL + 1))
        parallel = self._choice("parallel", tuple(Choice(number, number) for number in numbers))
        form.add("Parallel answers", parallel, help=_PARALLEL)
        learn = self._tick("learn", "Use past answers to draft faster")
        form.add("Past answers", learn, help=_LEARN)
        return form

    def _storage(self, folders: Mapping[str, Path]) -> QWidget:
        form = _Form()
        cache = self._tick("keep_documents", "Cache documents on disk")
        form.add("Documents", cache, help=_CACHE)
        self._kept = plain_label()
        self._delete = text_button("Delete cache", self.deletion_asked.emit)
        self._delete.setEnabled(False)
        form.add("", _row(self._kept, self._delete))
        for name, folder in folders.items():
            act, path = partial(self._opening, folder), plain_label(wraps=True, selectable=True)
            button = text_button("Open", act, name=f"Open the folder: {name}")
            path.setText(str(folder))
            button.setEnabled(folder.is_dir())
            form.add(name, _row(path, button))
        return form

    def _new_conversations(self) -> QWidget:
        form, new = _Form(), self._new
        presets = (*BUILT_IN, *presets_from_json(self._settings.presets))
        samplings = {preset.name: preset.sampling for preset in presets}
        chosen = find_preset(new.sampling, presets)
        names = tuple(Choice(own.name, own.name, own.line or "Your preset") for own in presets)
        sampling = ChoiceBox("", names, chosen.name if chosen else "")
        sampling.chosen.connect(lambda name: self._keep_new(sampling=samplings[name]))
        form.add("Sampling", sampling)
        max_tokens = NumberBox(MAX_TOKENS)
        max_tokens.setValue(new.max_tokens)
        max_tokens.valueChanged.connect(lambda tokens: self._keep_new(max_tokens=round(tokens)))
        form.add(MAX_TOKENS.name, max_tokens)
        overflow = ChoiceBox("", OVERFLOWS, new.overflow)
        overflow.chosen.connect(lambda chosen: self._keep_new(overflow=chosen))
        form.add("When the context is full", overflow)
        hint = "Instructions for the model in each new conversation"
        prompt = text_area(self._settings.new_system_prompt, hint=hint)
        keep_prompt = self._keep("new_system_prompt")
        prompt.textChanged.connect(lambda: keep_prompt(prompt.toPlainText()))
        form.add("System prompt", prompt, help=_EXISTING)
        return form

    # Boxes that are bound to a setting

    def _choice(self, name: str, choices: tuple[Choice, ...]) -> ChoiceBox:
        """Return a box for the setting `name`. The values of `choices` are as they are stored."""
        box = ChoiceBox("", choices, str(getattr(self._settings, name)))
        box.chosen.connect(self._keep(name))
        return box

    def _tick(self, name: str, words: str) -> EdgedCheckBox:
        box = EdgedCheckBox(words)
        box.setAccessibleName(words)
        box.setChecked(getattr(self._settings, name))
        box.toggled.connect(self._keep(name))
        return box

    def _keep(self, name: str) -> Callable[[object], None]:
        """Return what stores a value as the setting with this name."""
        of_theme = name in ("theme", "font_family", "font_points")

        def keep(value: object) -> None:
            setattr(self._settings, name, value)
            if of_theme:
                self._theme.refresh()
            else:
                self.changed.emit()

        return keep

    def _choose_normal_size(self) -> None:
        self._settings.font_points = None
        self._size.setValue(self._theme.points)
        self._settings.font_points = None  # setting the box has stored a number
        self._theme.refresh()

    def _keep_new(self, **values: object) -> None:
        self._new = replace(self._new, **values)  # type: ignore[arg-type]
        new = None if self._new == DEFAULTS else self._new
        self._settings.new_settings = settings_to_json(new)
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

    def add(self, name: str, widget: QWidget, *, help: str = "") -> None:
        """Add a row, with a "?" after it that shows `help`."""
        if name and not widget.accessibleName():
            widget.setAccessibleName(name)
        if help:
            widget.setAccessibleDescription(help)
        field = _row(widget, _help(name, help)) if help else widget
        self._rows.addRow(plain_label(name, buddy=widget), field)


def _help(name: str, text: str) -> QToolButton:
    """Return the button that explains a setting."""
    button = QToolButton()
    button.setText("?")
    button.setAccessibleName(f"About: {name}")
    button.setToolTip(text)
    button.clicked.connect(
        lambda: QWhatsThis.showText(button.mapToGlobal(QPoint(0, button.height())), text, button)
    )
    return button


def _row(first: QWidget, *others: QWidget) -> QWidget:
    """Return the widgets side by side; the first takes the free width."""
    row = QWidget()
    row_of((first, 1), *((other, Qt.AlignmentFlag.AlignTop) for other in others), on=row, margins=0)
    return row
