"""The models of the sidebar's lists: the conversations in sections, and the hits of a search.

Knows the store's records and Qt's models; not how a line looks.
"""

from collections.abc import Mapping
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

from app.chat.activity import Activity, in_a_line
from app.conversations.records import Conversation, Hit
from models.in_words import clean

type Index = QModelIndex | QPersistentModelIndex

CONVERSATION = int(Qt.ItemDataRole.UserRole)  # the record
SECTION = CONVERSATION + 1  # the heading above the first line of a section; empty for other lines
SHOWN = CONVERSATION + 2  # whether the transcript shows it
HIT = CONVERSATION + 3
ACTIVITY = CONVERSATION + 4  # what is being done for an answer in it; None for nothing

UNTITLED = "New conversation"


class ConversationModel(QAbstractListModel):
    """The conversations, in the given order.

    Signals:
        renamed(int, str): a title was edited; the line shows the new one already.
    """

    renamed = Signal(int, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._conversations: list[Conversation] = []
        self._sections: list[str] = []
        self._rows: dict[int, int] = {}
        self._shown: int | None = None
        self._activities: dict[int, Activity] = {}

    @property
    def shown(self) -> int | None:
        """The conversation that the transcript shows."""
        return self._shown

    def set_conversations(self, conversations: tuple[Conversation, ...], now: datetime) -> None:
        """Show these from now on. `now` has a time zone."""
        today = now.astimezone().date()
        sections = [_section(conversation, today) for conversation in conversations]
        headings = [
            "" if row and section == sections[row - 1] else section
            for row, section in enumerate(sections)
        ]
        same = [c.id for c in conversations] == [c.id for c in self._conversations]
        if same and headings == self._sections:
            self._conversations = list(conversations)
            if conversations:
                self.dataChanged.emit(self.index(0), self.index(len(conversations) - 1))
            return
        self.beginResetModel()
        self._conversations = list(conversations)
        self._sections = headings
        self._rows = {conversation.id: row for row, conversation in enumerate(conversations)}
        self.endResetModel()

    def set_shown(self, conversation: int | None) -> None:
        """Mark the conversation that the transcript shows, if any."""
        before, self._shown = self._shown, conversation
        for id in (before, conversation):
            index = self.index_of(id)
            if index.isValid():
                self.dataChanged.emit(index, index, [SHOWN])

    def set_activities(self, activities: Mapping[int, Activity]) -> None:
        """Mark the conversations in which there is something to wait for, by their ids."""
        before, self._activities = self._activities, dict(activities)
        for id in before.keys() | activities.keys():
            index = self.index_of(id)
            if index.isValid() and before.get(id) != activities.get(id):
                self.dataChanged.emit(index, index, [ACTIVITY])

    def index_of(self, conversation: int | None) -> QModelIndex:
        """Its index; an invalid one where it is not in the list."""
        row = self._rows.get(conversation, -1) if conversation is not None else -1
        return self.index(row) if row >= 0 else QModelIndex()

    def conversation(self, index: Index) -> Conversation | None:
        """The conversation at `index`."""
        return self._conversations[index.row()] if index.isValid() else None

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._conversations)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        conversation = self._conversations[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return title_of(conversation)
            case Qt.ItemDataRole.EditRole:
                return conversation.title
            case Qt.ItemDataRole.AccessibleTextRole:
                shown = ", shown" if conversation.id == self._shown else ""
                activity = self._activities.get(conversation.id)
                doing = f". {in_a_line(activity)}" if activity else ""
                pinned = ", pinned" if conversation.pinned else ""
                return title_of(conversation) + pinned + shown + doing
            case Qt.ItemDataRole.ToolTipRole:
                changed = conversation.updated.astimezone()
                activity = self._activities.get(conversation.id)
                doing = f"\n{in_a_line(activity)}" if activity else ""
                return f"{title_of(conversation)}\n{changed.day} {changed:%B %Y, %H:%M}{doing}"
        if role == SECTION:
            return self._sections[index.row()]
        if role == SHOWN:
            return conversation.id == self._shown
        if role == ACTIVITY:
            return self._activities.get(conversation.id)
        return conversation if role == CONVERSATION else None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        title = " ".join(str(value).split())
        conversation = self.conversation(index)
        if (
            conversation is None
            or role != Qt.ItemDataRole.EditRole
            or not title
            or title == conversation.title
        ):
            return False
        self._conversations[index.row()] = replace(conversation, title=title)
        self.dataChanged.emit(index, index)
        self.renamed.emit(conversation.id, title)
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        return super().flags(index) | Qt.ItemFlag.ItemIsEditable


class HitModel(QAbstractListModel):
    """The hits of a search."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._hits: tuple[Hit, ...] = ()

    def set_hits(self, hits: tuple[Hit, ...]) -> None:
        """Show these hits."""
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
    """Its title in one line."""
    return " ".join(clean(conversation.title).split()) or UNTITLED


def _section(conversation: Conversation, today: date) -> str:
    """The heading of its section."""
    if conversation.pinned:
        return "Pinned"
    day = conversation.updated.astimezone().date()
    for section, days in (("Today", 0), ("Yesterday", 1), ("Past week", 7), ("Past month", 30)):
        if day >= today - timedelta(days=days):
            return section
    return "Older"
