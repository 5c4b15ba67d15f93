"""The models of the sidebar's lists: conversations in folders and sections, and search hits.

Knows the store's records and Qt's models; not how a line looks.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QMimeData,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)
from PySide6.QtGui import QStandardItem, QStandardItemModel

from app.chat.activity import Activity, long_status
from app.conversations.records import Conversation, Folder, Hit
from app.theme.labels import plain_tip
from models.in_words import one_line

type Index = QModelIndex | QPersistentModelIndex

CONVERSATION = int(Qt.ItemDataRole.UserRole)  # the record; None for a group
SECTION = CONVERSATION + 1  # the heading above the first line of a section; empty for other lines
SHOWN = CONVERSATION + 2  # whether the transcript shows it; the hit that was opened last
HIT = CONVERSATION + 3
ACTIVITY = CONVERSATION + 4  # the activity of an answer in it; None for none
GROUP = CONVERSATION + 5  # of a folder's line, or the archive's; None for a conversation
INSIDE = CONVERSATION + 6  # whether the line belongs to the group above it
ELSEWHERE = CONVERSATION + 7  # whether another window shows it

UNTITLED = "New conversation"
ARCHIVE = "Archived"
DRAGGED = "application/x-slipstream-conversations"


@dataclass(frozen=True, slots=True)
class Group:
    """A line that opens and closes: a folder, or the archive, which has no `folder`.

    `count` is the number of its conversations.
    """

    folder: Folder | None
    count: int
    open: bool

    @property
    def name(self) -> str:
        return (one_line(self.folder.name) or "Folder") if self.folder else ARCHIVE


@dataclass(frozen=True, slots=True)
class SidebarRow:
    """A line of the list: a conversation or a group."""

    conversation: Conversation | None = None
    group: Group | None = None
    heading: str = ""
    inside: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Rows with equal keys are the same line."""
        folder = self.group.folder.id if self.group and self.group.folder else None
        conversation = self.conversation.id if self.conversation else None
        return (conversation, folder, self.group is None, self.heading, self.inside)


class ConversationModel(QAbstractListModel):
    """The conversations: pinned ones, folders, the others by date, and the archive at the end.

    Signals:
        renamed(int, str): a title was edited; the line shows it already.
        folder_renamed(int, str): the same for a folder's name.
    """

    renamed = Signal(int, str)
    folder_renamed = Signal(int, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._conversations: tuple[Conversation, ...] = ()
        self._folders: tuple[Folder, ...] = ()
        self._archive_open = False
        self._today = date.min
        self._rows: list[SidebarRow] = []
        self._row_of: dict[int, int] = {}
        self._shown: int | None = None
        self._elsewhere: frozenset[int] = frozenset()
        self._activities: dict[int, Activity] = {}

    @property
    def shown(self) -> int | None:
        """The conversation that the transcript shows."""
        return self._shown

    @property
    def folders(self) -> tuple[Folder, ...]:
        return self._folders

    @property
    def listed(self) -> tuple[Conversation, ...]:
        """The conversations that have a line, from the top."""
        return tuple(row.conversation for row in self._rows if row.conversation)

    def set_conversations(
        self,
        conversations: Sequence[Conversation],
        now: datetime,
        *,
        folders: Sequence[Folder] = (),
    ) -> None:
        """Show these in the given order. `now` has a time zone."""
        self._conversations, self._folders = tuple(conversations), tuple(folders)
        self._today = now.astimezone().date()
        self._arrange()

    def set_shown(self, conversation: int | None) -> None:
        """Mark the conversation that the transcript shows, if any."""
        before, self._shown = self._shown, conversation
        self._mark((before, conversation), SHOWN)

    @property
    def elsewhere(self) -> frozenset[int]:
        """The conversations that other windows show."""
        return self._elsewhere

    def set_elsewhere(self, conversations: Iterable[int]) -> None:
        """Mark the conversations that other windows show."""
        before, self._elsewhere = self._elsewhere, frozenset(conversations)
        self._mark(before ^ self._elsewhere, ELSEWHERE)

    def set_open(self, group: Group, opened: bool) -> None:
        """Show a group's conversations, or only its name."""
        if group.folder is None:
            self._archive_open = opened
        else:
            self._folders = tuple(
                replace(folder, open=opened) if folder.id == group.folder.id else folder
                for folder in self._folders
            )
        self._arrange()

    def set_activities(self, activities: Mapping[int, Activity]) -> None:
        """Mark the conversations with an activity, by their ids."""
        before, self._activities = self._activities, dict(activities)
        ids = before.keys() | activities.keys()
        self._mark((id for id in ids if before.get(id) != activities.get(id)), ACTIVITY)

    def _mark(self, conversations: Iterable[int | None], role: int) -> None:
        """Have the lines of these drawn again, as this changed."""
        for index in filter(QModelIndex.isValid, map(self.index_of, conversations)):
            self.dataChanged.emit(index, index, [role])

    def index_of(self, conversation: int | None) -> QModelIndex:
        """Return the index of a conversation's line; an invalid one if it has none."""
        row = self._row_of.get(conversation, -1) if conversation is not None else -1
        return self.index(row) if row >= 0 else QModelIndex()

    def index_of_folder(self, folder: int | None) -> QModelIndex:
        """Return the index of a folder's line; of the archive's for None."""
        for number, row in enumerate(self._rows):
            if row.group and (row.group.folder.id if row.group.folder else None) == folder:
                return self.index(number)
        return QModelIndex()

    def lines_of(self, index: Index) -> range:
        """Return the rows that receive a drop at `index`: the rows of its group, or all rows
        outside of groups."""
        row = self._rows[index.row()] if index.isValid() else None
        first = last = index.row()
        if row is None or not (row.inside or row.group):
            outside = [n for n, r in enumerate(self._rows) if not (r.inside or r.group)]
            return range(outside[0], outside[-1] + 1) if outside else range(0)
        while self._rows[first].inside:
            first -= 1
        while last + 1 < len(self._rows) and self._rows[last + 1].inside:
            last += 1
        return range(first, last + 1)

    def group_around(self, index: Index) -> Group | None:
        """Return the group of a line; None outside of groups."""
        if not index.isValid():
            return None
        row = self._rows[index.row()]
        return self._rows[self.lines_of(index).start].group if row.inside else row.group

    def conversation(self, index: Index) -> Conversation | None:
        """Return the conversation at `index`, or None."""
        return self._rows[index.row()].conversation if index.isValid() else None

    def titles(self, conversations: Collection[int]) -> list[str]:
        """Return the titles of these, also of those without a line."""
        return [title_of(found) for found in self._conversations if found.id in conversations]

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row = self._rows[index.row()]
        if role >= CONVERSATION:
            return {
                SECTION: row.heading,
                CONVERSATION: row.conversation,
                GROUP: row.group,
                INSIDE: row.inside,
                ACTIVITY: self._activities.get(row.conversation.id) if row.conversation else None,
                SHOWN: row.conversation is not None and row.conversation.id == self._shown,
                ELSEWHERE: row.conversation is not None and row.conversation.id in self._elsewhere,
            }.get(role)
        if row.group is not None:
            return _group_data(row.group, role)
        return None if row.conversation is None else self._data(row.conversation, role)

    def _data(self, conversation: Conversation, role: int) -> Any:
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return title_of(conversation)
            case Qt.ItemDataRole.EditRole:
                return conversation.title
            case Qt.ItemDataRole.AccessibleTextRole:
                shown = ", shown" if conversation.id == self._shown else ""
                if conversation.id in self._elsewhere:
                    shown = ", open in another window"
                activity = self._activities.get(conversation.id)
                doing = f". {long_status(activity)}" if activity else ""
                pinned = ", pinned" if conversation.pinned else ""
                return title_of(conversation) + pinned + shown + doing
            case Qt.ItemDataRole.ToolTipRole:
                changed = conversation.updated.astimezone()
                activity = self._activities.get(conversation.id)
                doing = f"\n{long_status(activity)}" if activity else ""
                if conversation.id in self._elsewhere:
                    doing = f"\nOpen in another window.{doing}"
                when = f"{changed.day} {changed:%B %Y, %H:%M}{doing}"
                return plain_tip(f"{title_of(conversation)}\n{when}")
        return None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        """Set a conversation's title or a folder's name. An empty text changes nothing."""
        text = " ".join(str(value).split())
        if not index.isValid() or role != Qt.ItemDataRole.EditRole or not text:
            return False
        row = self._rows[index.row()]
        if row.group is not None and row.group.folder is not None and text != row.group.folder.name:
            folder = replace(row.group.folder, name=text)
            self._rows[index.row()] = replace(row, group=replace(row.group, folder=folder))
            self.dataChanged.emit(index, index)
            self.folder_renamed.emit(folder.id, text)
            return True
        if row.conversation is not None and text != row.conversation.title:
            self._rows[index.row()] = replace(
                row, conversation=replace(row.conversation, title=text)
            )
            self.dataChanged.emit(index, index)
            self.renamed.emit(row.conversation.id, text)
            return True
        return False

    def flags(self, index: Index) -> Qt.ItemFlag:
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsDropEnabled
        row = self._rows[index.row()] if index.isValid() else SidebarRow()
        if row.conversation is not None:
            flags |= Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsDragEnabled
        if row.conversation is not None or (row.group is not None and row.group.folder is not None):
            flags |= Qt.ItemFlag.ItemIsEditable
        return flags

    # Dragging

    def mimeTypes(self) -> list[str]:
        return [DRAGGED]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        ids = [row.id for index in indexes if (row := self.conversation(index))]
        data = QMimeData()
        data.setData(DRAGGED, json.dumps(ids).encode())
        return data

    def supportedDragActions(self) -> Qt.DropAction:
        return Qt.DropAction.MoveAction

    def _arrange(self) -> None:
        rows = list(self._make_rows())
        if [row.key for row in rows] == [row.key for row in self._rows]:
            self._rows = rows
            if rows:
                self.dataChanged.emit(self.index(0), self.index(len(rows) - 1))
            return
        self.beginResetModel()
        self._rows = rows
        self._row_of = {
            row.conversation.id: number for number, row in enumerate(rows) if row.conversation
        }
        self.endResetModel()

    def _make_rows(self) -> Iterable[SidebarRow]:
        inside: dict[int, list[Conversation]] = {folder.id: [] for folder in self._folders}
        outside: list[Conversation] = []
        archived: list[Conversation] = []
        for conversation in self._conversations:
            if conversation.archived:
                archived.append(conversation)
            elif conversation.folder in inside:
                inside[conversation.folder].append(conversation)
            else:
                outside.append(conversation)
        before = ""
        pinned = [conversation for conversation in outside if conversation.pinned]
        for number, conversation in enumerate(pinned):
            yield SidebarRow(conversation, heading="" if number else "Pinned")
        for number, folder in enumerate(self._folders):
            group = Group(folder, len(inside[folder.id]), folder.open)
            yield from _rows_of(group, inside[folder.id], heading="" if number else "Folders")
        for conversation in outside[len(pinned) :]:
            section = _section(conversation, self._today)
            yield SidebarRow(conversation, heading="" if section == before else section)
            before = section
        if archived:
            group = Group(None, len(archived), self._archive_open)
            yield from _rows_of(group, archived, heading=" ")


class HitModel(QStandardItemModel):
    """The hits of a search."""

    _shown: tuple[int, int | None] | None = None  # the conversation and message of a hit

    @property
    def shown_conversation(self) -> int | None:
        """The conversation of the hit that is marked."""
        return self._shown[0] if self._shown else None

    def set_shown(self, hit: Hit | None) -> None:
        """Mark the hit that the transcript shows; None for no hit."""
        self._shown = None if hit is None else (hit.conversation, hit.message)
        self._mark()

    def set_hits(self, hits: tuple[Hit, ...]) -> None:
        """Show these hits."""
        self.clear()
        for hit in hits:
            text = one_line("".join(part.text for part in hit.excerpts))
            place = "" if hit.message is None else f"{one_line(hit.title) or UNTITLED}: "
            item = QStandardItem(place + text)
            item.setData(hit, HIT)
            self.appendRow(item)
        self._mark()

    def _mark(self) -> None:
        for row in range(self.rowCount()):
            item = self.item(row)
            hit: Hit = item.data(HIT)
            shown = (hit.conversation, hit.message) == self._shown
            item.setData(shown, SHOWN)
            spoken = f"{item.text()}, shown" if shown else item.text()
            item.setData(spoken, Qt.ItemDataRole.AccessibleTextRole)


def title_of(conversation: Conversation) -> str:
    """Return its title in one line."""
    return one_line(conversation.title) or UNTITLED


def _rows_of(
    group: Group, conversations: Sequence[Conversation], *, heading: str
) -> Iterable[SidebarRow]:
    yield SidebarRow(group=group, heading=heading)
    if group.open:
        for conversation in conversations:
            yield SidebarRow(conversation, inside=True)


def _group_data(group: Group, role: int) -> Any:
    match role:
        case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.EditRole:
            return group.name
        case Qt.ItemDataRole.AccessibleTextRole:
            kind = "Folder " if group.folder else ""
            conversations = f"{group.count:,} conversation{'' if group.count == 1 else 's'}"
            return f"{kind}{group.name}, {conversations}, {'open' if group.open else 'closed'}"
    return None


def _section(conversation: Conversation, today: date) -> str:
    """Return the heading of its section."""
    day = conversation.updated.astimezone().date()
    for section, days in (("Today", 0), ("Yesterday", 1), ("Past week", 7), ("Past month", 30)):
        if day >= today - timedelta(days=days):
            return section
    return "Older"
