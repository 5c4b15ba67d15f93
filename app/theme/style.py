"""Light and dark, as the system or the user chooses, and the fonts of the chat and its figures.

Knows the application's palette; not the widgets that use it.
"""

import math
import sys
from collections.abc import Callable

from PySide6.QtCore import QObject, QSettings, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontInfo, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication, QToolButton, QToolTip, QWidget

from app.settings import LEAST_FONT_POINTS, MOST_FONT_POINTS, Settings, ThemeChoice
from app.theme.palette import DARK, LIGHT, Palette, palette_for

# The looks of a window and its dialogs, in the colours of the application's palette: see `Theme`.
STYLE_SHEET = """
QSplitter::handle { background: palette(mid); }
QToolTip { padding: 4px; }
QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 0; }
QTabWidget::pane { border: 0; border-top: 1px solid palette(mid); }
QTabBar::tab {
    border: 0; border-bottom: 2px solid transparent; padding: 8px 12px; margin: 0 2px;
    color: palette(placeholder-text);
}
QTabBar::tab:hover { color: palette(text); }
QTabBar::tab:selected { color: palette(text); border-bottom-color: palette(link); }
QTabBar::tab:selected:focus {
    background: palette(midlight); border-bottom: 2px solid palette(link);
}
RowTree {
    border: 1px solid palette(mid); border-radius: 6px; padding: 4px; background: palette(base);
    selection-background-color: palette(midlight); selection-color: palette(text); outline: none;
}
RowTree:focus { border-color: palette(link); }
RowTree::item { padding: 3px 0; }
PairPage { border: 1px solid palette(shadow); background: palette(base); }
"""
# At the end of the sheet, where they win over the buttons' usual looks.
_CHIEF_AND_LINKS = """
QPushButton[chief="true"] {
    border: 1px solid palette(link); border-radius: 6px; padding: 7px 14px;
    background: palette(link); color: palette(base); font-weight: bold;
}
QPushButton[chief="true"]:disabled {
    border-color: palette(mid); background: palette(midlight); color: palette(text);
}
QPushButton:flat {
    border: 1px solid transparent; border-radius: 6px; padding: 2px 0;
    background: transparent; color: palette(link);
}
QPushButton:flat:hover { text-decoration: underline; }
QPushButton:flat:focus { border-color: palette(link); }
"""
if sys.platform != "darwin":  # a Mac's scroll bars and buttons are well as they are
    STYLE_SHEET += """
QScrollBar:vertical { background: transparent; width: 12px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 12px; margin: 0; }
QScrollBar::handle { background: palette(mid); border-radius: 3px; margin: 3px; }
QScrollBar::handle:hover { background: palette(placeholder-text); }
QScrollBar::handle:vertical { min-height: 28px; }
QScrollBar::handle:horizontal { min-width: 28px; }
QScrollBar::handle:disabled { background: transparent; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: none; }
QPushButton {
    border: 1px solid palette(mid); border-radius: 6px; padding: 4px 6px;
    background: palette(button); color: palette(button-text);
}
QPushButton:hover { background: palette(midlight); }
QPushButton:focus { border-color: palette(link); }
QPushButton:disabled { color: palette(shadow); }
"""
    # Fusion's edges of fields are darker than the window, and so invisible in dark windows.
    STYLE_SHEET += """
QDialog QLineEdit, QDialog QPlainTextEdit, QDialog QAbstractSpinBox, Sidebar > QLineEdit,
FindBar > QLineEdit, Page > QLineEdit, ApprovalCard QPlainTextEdit, QDialog QListWidget {
    border: 1px solid palette(shadow); border-radius: 6px; padding: 3px 4px;
    background: palette(base);
}
Sidebar > QLineEdit { border-color: palette(mid); padding: 4px 2px; }
Sidebar > QLineEdit:focus, FindBar > QLineEdit:focus, Page > QLineEdit:focus,
QDialog QLineEdit:focus, QDialog QPlainTextEdit:focus, QDialog QAbstractSpinBox:focus,
ApprovalCard QPlainTextEdit:focus, QDialog QListWidget:focus {
    border-color: palette(highlight);
}
QDialog QAbstractSpinBox { padding: 1px 18px 1px 4px; }
QDialog QAbstractSpinBox QLineEdit { border: none; padding: 0 2px; }
QDialog QAbstractSpinBox::up-button, QDialog QAbstractSpinBox::down-button {
    border: none; background: none; width: 16px;
}
QDialog QAbstractSpinBox::up-button { subcontrol-position: top right; }
QDialog QAbstractSpinBox::down-button { subcontrol-position: bottom right; }
QDialog QAbstractSpinBox::up-arrow, QDialog QAbstractSpinBox::down-arrow {
    width: 0; height: 0; border: 3px solid palette(base);
}
QDialog QAbstractSpinBox::up-arrow { border-bottom-color: palette(placeholder-text); }
QDialog QAbstractSpinBox::down-arrow { border-top-color: palette(placeholder-text); }
QComboBox {
    border: 1px solid palette(shadow); border-radius: 6px; padding: 4px 8px;
    background: palette(base);
}
QComboBox:hover { border-color: palette(placeholder-text); }
QComboBox:focus { border-color: palette(highlight); }
QComboBox:disabled { color: palette(shadow); border-color: palette(mid); }
QComboBox::drop-down { border: none; width: 22px; }
QComboBox::down-arrow { width: 0; height: 0; border: 4px solid palette(base); }
QComboBox::down-arrow { border-top-color: palette(placeholder-text); top: 2px; }
Sidebar QComboBox { border-color: palette(mid); padding: 3px 4px; }
Sidebar QComboBox::drop-down { width: 14px; }
QProgressBar { border: none; border-radius: 3px; background: palette(mid); }
QProgressBar::chunk { border-radius: 3px; background: palette(link); }
QSlider:horizontal { min-height: 22px; }
QSlider::groove:horizontal { height: 4px; border-radius: 2px; background: palette(mid); }
QSlider::sub-page:horizontal { border-radius: 2px; background: palette(link); }
QSlider::handle:horizontal {
    width: 14px; height: 14px; margin: -5px 0; border-radius: 7px; background: palette(link);
}
QSlider::handle:horizontal:disabled, QSlider::sub-page:horizontal:disabled {
    background: palette(mid);
}
QSlider::handle:horizontal:focus { border: 2px solid palette(text); margin: -7px 0; }
"""
STYLE_SHEET += _CHIEF_AND_LINKS

_TEXT_PIXELS, _INTERFACE_PIXELS = 15, 13  # the least normal sizes; a larger system font holds


class Theme(QObject):
    """Colours the application, now and whenever the system changes between light and dark.

    Attributes: `font` and `colours` of the chat. Signals: `changed()`: one of them changed, and the
    application has its new palette.
    """

    changed = Signal()

    def __init__(
        self,
        application: QApplication,
        settings: Settings,
        *,
        dark: Callable[[], bool] | None = None,
    ) -> None:
        """`dark` replaces the system's setting, for tests."""
        super().__init__(application)
        # Otherwise a style sheet would stop a widget's font from reaching its children.
        application.setAttribute(Qt.ApplicationAttribute.AA_UseStyleSheetPropagationInWidgetStyles)
        self._application, self._settings = application, settings
        self._dark = dark or system_is_dark
        self._system = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
        system = QFontInfo(self._system).pointSizeF()
        self._own_points = max(system, math.ceil(2 * points_of(_TEXT_PIXELS)) / 2)
        self._interface_points = max(system, points_of(_INTERFACE_PIXELS))
        self.colours, self.font = self._apply()
        QGuiApplication.styleHints().colorSchemeChanged.connect(self.refresh)

    @property
    def points(self) -> float:
        """The size of the chat's text."""
        return self._settings.font_points or self._own_points

    @property
    def interface_font(self) -> QFont:
        """The font outside of the chat, which is zoomed as the text is."""
        font = QFont(self._system)
        font.setPointSizeF(self._interface_points * self.points / self._own_points)
        return font

    def zoom(self, by: float) -> None:
        """Make the text larger by this many points; 0 returns to the system's size."""
        points = min(MOST_FONT_POINTS, max(LEAST_FONT_POINTS, self.points + by))
        self._settings.font_points = points if by else None
        self.refresh()

    @property
    def dark(self) -> bool:
        """Whether windows are dark now: as chosen, or as the system is."""
        chosen = self._settings.theme
        return self._dark() if chosen == "system" else chosen == "dark"

    def refresh(self) -> None:
        """Read the settings of the system and the application again, and apply them."""
        self.colours, self.font = self._apply()
        self.changed.emit()

    def _apply(self) -> tuple[Palette, QFont]:
        _ask_for_scheme(self._settings.theme)
        colours = DARK if self.dark else LIGHT
        self._application.setPalette(qt_palette(colours))
        QToolTip.setPalette(qt_palette(colours))
        font = self.interface_font
        self._application.setFont(font)
        font.setPointSizeF(self.points)
        if family := self._settings.font_family:
            font.setFamily(family)
        return colours, font


def points_of(pixels: float) -> float:
    """Return the size in points of a font that is this high."""
    return pixels * 72 / QGuiApplication.primaryScreen().logicalDotsPerInchY()


def zoomed(widget: QWidget, pixels: float) -> int:
    """Return a width at the normal size of the interface, in pixels, for the widget's font."""
    return round(pixels * max(1.0, widget.font().pointSizeF() / points_of(_INTERFACE_PIXELS)))


def system_is_dark() -> bool:
    """Return whether the system shows dark windows now."""
    return QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark


def _ask_for_scheme(theme: ThemeChoice) -> None:
    """Have the system draw its own parts, such as title bars, in the chosen scheme."""
    schemes = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}
    wanted = schemes.get(theme, Qt.ColorScheme.Unknown)  # unknown: as the system is
    QGuiApplication.styleHints().setColorScheme(wanted)


def qt_palette(colours: Palette) -> QPalette:
    """Return the palette of a window in these colours."""
    roles = QPalette.ColorRole
    made = QPalette(QColor(colours.card), QColor(colours.paper))
    for role, colour in {
        roles.Window: colours.paper,
        roles.Base: colours.paper,
        roles.AlternateBase: colours.card,
        roles.Button: colours.card,
        roles.WindowText: colours.text,
        roles.Text: colours.text,
        roles.ButtonText: colours.text,
        roles.BrightText: colours.warning,
        roles.PlaceholderText: colours.muted,
        roles.ToolTipBase: colours.card,
        roles.ToolTipText: colours.text,
        roles.Link: colours.link,
        roles.LinkVisited: colours.accepted,  # no text shows that: `labels.set_tone` does
        roles.Highlight: colours.link,
        roles.HighlightedText: colours.paper,
        roles.Accent: colours.link,
        roles.Mid: colours.edge,
        roles.Shadow: colours.bar,
        roles.Midlight: colours.hover,
    }.items():
        made.setColor(role, QColor(colour))
    for role in (roles.WindowText, roles.Text, roles.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, role, QColor(colours.bar))
    return made


def colours_of(widget: QWidget) -> Palette:
    """Return the colours of a widget's window."""
    return palette_for(widget.palette().window().color().name())


def sign_button(text: str, name: str, act: Callable[[], object], *, keys: str = "") -> QToolButton:
    """Return a button that shows a character or two; `name` is for screen readers. `keys` do the
    same."""
    button = QToolButton()
    button.setText(text)
    button.setAutoRaise(True)
    button.setToolTip(f"{name} ({keys})" if keys else name)
    button.setAccessibleName(name)
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    button.clicked.connect(act)
    return button


def scaled_font(font: QFont, scale: float = 1.0, *, bold: bool = False) -> QFont:
    """Return `font` in another size, and heavier if `bold`."""
    scaled = QFont(font)
    scaled.setPointSizeF(max(7.0, font.pointSizeF() * scale))
    if bold:
        scaled.setWeight(QFont.Weight.DemiBold)
    return scaled


def small_font(font: QFont, *, scale: float = 0.85) -> QFont:
    """Return `font` in a smaller size, for labels."""
    return scaled_font(font, scale)


def figures_font(font: QFont) -> QFont:
    """Return `font` with digits of equal width, so that figures do not jump as they count."""
    figures = QFont(font)
    figures.setFeature(QFont.Tag("tnum"), 1)
    return figures


def motion_is_reduced() -> bool:
    """Return whether the system is set to reduce motion.

    Qt knows it from version 6.12 on; before that, macOS's own setting is read. Untested on a Mac.
    """
    hints = QGuiApplication.styleHints().accessibility()
    if (preference := getattr(hints, "motionPreference", None)) is not None:
        return "Reduced" in str(preference())
    if sys.platform != "darwin":
        return False
    return bool(QSettings("apple.com", "universalaccess").value("reduceMotion", False, type=bool))
