"""The panels next to the conversation: which of them the user wants, and which have room.

If a window is too narrow for all, it shows the panel that was requested last; the others return
when there is room. Knows widths and the settings; not what the panels show.
"""

from collections.abc import Collection, Mapping

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QSplitter, QWidget

from app.settings import WindowSettings

_COMFORTABLE = 480  # pixels for the conversation next to several panels
_NARROW = 400  # its least width
_FURTHER = 160  # more if there are more than two panels, which would otherwise be cramped


class SidePanels(QObject):
    def __init__(
        self,
        columns: QSplitter,
        sides: Mapping[str, QWidget],
        *,
        middle: QWidget,
        actions: Mapping[str, QAction],
        settings: WindowSettings,
        hidden: Collection[str] = (),
    ) -> None:
        """`columns` contains `middle` and the `sides`, the more useful side first.

        `actions` show and hide the sides of the same names. The `hidden` sides stay hidden until
        the user shows them.
        """
        super().__init__(columns)
        self._columns, self._sides, self._settings = columns, dict(sides), settings
        self._actions, self._hidden = actions, hidden
        self._wanted: set[str] = set()
        self._resting: set[str] = set()
        self._first = next(iter(self._sides))
        middle.setMinimumWidth(_NARROW)

    @property
    def narrowest(self) -> int:
        """The least width with room for one panel and the conversation."""
        return max(self._widths) + _NARROW + self._handles

    @property
    def _widths(self) -> list[int]:
        """The least widths of the panels, which grow with their text."""
        return [side.minimumWidth() for side in self._sides.values()]

    @property
    def _handles(self) -> int:
        return self._columns.handleWidth() * (self._columns.count() - 1)

    def restore(self) -> None:
        """Show the panels as they were when the window was closed."""
        self._columns.restoreState(self._settings.place("columns"))
        self._wanted = {
            name
            for name in self._sides
            if self._settings.switched(name, default=name not in self._hidden)
        }

    def keep(self) -> None:
        """Save the widths for `restore`."""
        self._settings.keep_place("columns", self._columns.saveState())

    def switch(self, name: str) -> None:
        """Show a hidden panel or hide a shown one, and remember it."""
        if self._sides[name].isHidden():
            self.show(name)
        else:
            self._want(name, False)

    def show(self, name: str) -> None:
        """Show a panel; if there is not enough room, instead of others."""
        self._first = name
        self._resting.discard(name)
        self._want(name, True)

    def rest(self, names: Collection[str]) -> None:
        """Hide these panels, and no others, until the next call or until they are asked for."""
        self._resting = set(names)
        self.fit()

    def fit(self) -> None:
        """Show the wanted panels that have room. Call this when the window's width changes."""
        left = self._columns.window().width() - _COMFORTABLE - self._handles
        fitting: list[str] = []
        wanted = self._wanted - self._resting
        for name in sorted(wanted, key=lambda name: (name != self._first, self._order(name))):
            left -= self._sides[name].minimumWidth() + (_FURTHER if len(fitting) == 2 else 0)
            if left >= 0 or not fitting:
                fitting.append(name)
        for name, side in self._sides.items():
            shown = name in fitting
            if side.isHidden() == shown:
                side.setVisible(shown)
            self._actions[name].setChecked(shown)

    def _order(self, name: str) -> int:
        return list(self._sides).index(name)

    def _want(self, name: str, wanted: bool) -> None:
        self._wanted = self._wanted | {name} if wanted else self._wanted - {name}
        self._settings.switch(name, wanted)
        self.fit()
