"""What the sidebar's lists are made of: the conversations, in sections, and what a search found.

Knows the store's records and Qt's models; nothing of how a line looks.
"""

from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from app.conversations.records import Conversation, Hit
from models.in_words import clean

type Index = QModelIndex | QPersistentModelIndex

CONVERSATION = int(Qt.ItemDataRole.UserRole)  # the record
SECTION = CONVERSATION + 1  # the heading above a line; empty but for the first of its section
SHOWN = CONVERSATION + 2  # whether it is the one that the transcript shows
HIT = CONVERSATION + 3

UNTITLED = "New conversation"


class ConversationModel(QAbstractListModel):
    """The conversations, in the order in which they were given.

    Signals:
        renamed(int, str): a line was edited. The line has its new title at once.
    """

    renamed = Signal(int, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._conversations: list[Conversation] = []
        self._sections: list[str] = []
        self._rows: dict[int, int] = {}
        self._shown: int | None = None

    @property
    def shown(self) -> int | None:
        """Which conversation the transcript shows."""
        return self._shown

    def set_conversations(self, conversations: tuple[Conversation, ...], now: datetime) -> None:
        """Others, or the same as they are now. `now` has a zone."""
        today = now.astimezone().date()
        sections = [_section(one, today) for one in conversations]
        headings = [
            "" if row and section == sections[row - 1] else section
            for row, section in enumerate(sections)
        ]
        same = [one.id for one in conversations] == [one.id for one in self._conversations]
        if same and headings == self._sections:
            self._conversations = list(conversations)
            if conversations:
                self.dataChanged.emit(self.index(0), self.index(len(conversations) - 1))
            return
        self.beginResetModel()
        self._conversations = list(conversations)
        self._sections = headings
        self._rows = {one.id: row for row, one in enumerate(conversations)}
        self.endResetModel()

    def set_shown(self, conversation: int | None) -> None:
        """The transcript shows another, or none."""
        before, self._shown = self._shown, conversation
        for one in (before, conversation):
            index = self.index_of(one)
            if index.isValid():
                self.dataChanged.emit(index, index, [SHOWN])

    def index_of(self, conversation: int | None) -> QModelIndex:
        """Where it stands; an invalid index where it does not."""
        row = self._rows.get(conversation, -1) if conversation is not None else -1
        return self.index(row) if row >= 0 else QModelIndex()

    def conversation(self, index: Index) -> Conversation | None:
        """The one at `index`."""
        return self._conversations[index.row()] if index.isValid() else None

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._conversations)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        one = self._conversations[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return title_of(one)
            case Qt.ItemDataRole.EditRole:
                return one.title
            case Qt.ItemDataRole.AccessibleTextRole:
                shown = ", shown" if one.id == self._shown else ""
                return title_of(one) + (", pinned" if one.pinned else "") + shown
            case Qt.ItemDataRole.ToolTipRole:
                changed = one.updated.astimezone()
                return f"{title_of(one)}\n{changed.day} {changed:%B %Y, %H:%M}"
        if role == SECTION:
            return self._sections[index.row()]
        if role == SHOWN:
            return one.id == self._shown
        return one if role == CONVERSATION else None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        title = " ".join(str(value).split())
        one = self.conversation(index)
        if one is None or role != Qt.ItemDataRole.EditRole or not title or title == one.title:
            return False
        self._conversations[index.row()] = replace(one, title=title)
        self.dataChanged.emit(index, index)
        self.renamed.emit(one.id, title)
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        return super().flags(index) | Qt.ItemFlag.ItemIsEditable


class HitModel(QAbstractListModel):
    """What a search found."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._hits: tuple[Hit, ...] = ()

    def set_hits(self, hits: tuple[Hit, ...]) -> None:
        """Show these instead."""
        self.beginResetModel()
        self._hits = hits
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._hits)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        hit = self._hits[index.row()]
        if role == HIT:
            return hit
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            text = " ".join(clean("".join(part.text for part in hit.excerpts)).split())
            return text if hit.message is None else f"{clean(hit.title) or UNTITLED}: {text}"
        return None


def title_of(conversation: Conversation) -> str:
    """As it can be shown in one line."""
    return " ".join(clean(conversation.title).split()) or UNTITLED


def _section(conversation: Conversation, today: date) -> str:
    """The heading under which it stands."""
    if conversation.pinned:
        return "Pinned"
    day = conversation.updated.astimezone().date()
    for section, days in (("Today", 0), ("Yesterday", 1), ("Past week", 7), ("Past month", 30)):
        if day >= today - timedelta(days=days):
            return section
    return "Older"
