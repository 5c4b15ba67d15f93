"""All that the Library knows: what is here, what is offered, found and downloaded, what drafts.

Knows the words of the commands; not how they run, and shows nothing.
"""

from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from app.commands import CommandRunner, JsonObject, Question, read_answer
from app.models import words
from app.models.downloads import Downloads
from models.errors import Problem
from models.records import Candidate, Download, Found, Incomplete, Installed, Offer


@dataclass(frozen=True, slots=True)
class Inventory:
    """What is on this machine, and on its way here. `free_bytes` is the room on the disk."""

    installed: tuple[Installed, ...] = ()
    incomplete: tuple[Incomplete, ...] = ()
    downloads: tuple[Download, ...] = ()
    folders: tuple[str, ...] = ()
    free_bytes: int = 0

    def find(self, name: str) -> Installed | None:
        """The installed model of that name, or in that folder. Case tells no names apart."""
        wanted = name.lower()
        return next(
            (one for one in self.installed if one.path == name or one.name.lower() == wanted), None
        )


def read_inventory(answer: JsonObject) -> Inventory:
    """The answer of `list`. Raises Problem."""
    return Inventory(
        read_answer(tuple[Installed, ...], answer, "installed"),
        read_answer(tuple[Incomplete, ...], answer, "incomplete"),
        read_answer(tuple[Download, ...], answer, "downloads"),
        read_answer(tuple[str, ...], answer, "folders"),
        read_answer(int, {"free_bytes": 0} | answer, "free_bytes"),
    )


def read_found(answer: JsonObject) -> tuple[Found, ...]:
    """The answer of `search`. Raises Problem."""
    return read_answer(tuple[Found, ...], answer, "found")


def read_offers(answer: JsonObject) -> tuple[Offer, ...]:
    """The answer of `pair`. Raises Problem."""
    return read_answer(tuple[Offer, ...], answer, "offers")


def read_candidates(answer: JsonObject) -> tuple[Candidate, ...]:
    """The answer of `pair --target`. Raises Problem."""
    return read_answer(tuple[Candidate, ...], answer, "candidates")


class Library(QObject):
    """Attributes: the questions `shelf`, `offers`, `found` and `candidates`; `downloads`;
    `searched`, the text that was searched for; `target`, whose candidates these are.

    Signals:
        told(str): something that was asked for is done.
        failed(Problem): it is not.
    """

    told = Signal(str)
    failed = Signal(object)

    def __init__(
        self, commands: CommandRunner | None = None, *, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._commands = commands or CommandRunner(parent=self)
        self.shelf: Question[Inventory] = Question(
            self._commands, read_inventory, empty=Inventory(), parent=self
        )
        self.offers: Question[tuple[Offer, ...]] = Question(
            self._commands, read_offers, empty=(), parent=self
        )
        self.found: Question[tuple[Found, ...]] = Question(
            self._commands, read_found, empty=(), parent=self
        )
        self.candidates: Question[tuple[Candidate, ...]] = Question(
            self._commands, read_candidates, empty=(), parent=self
        )
        self.downloads = Downloads(self._commands, parent=self)
        self.searched = ""
        self.target = ""
        self._closed = False
        self.shelf.changed.connect(self._on_shelf)
        self.downloads.ended.connect(self._look_again)
        self.downloads.failed.connect(self.failed)

    def look(self) -> None:
        """See what is on this machine, and on its way."""
        self.shelf.ask("list", "--json")

    def look_at_offers(self) -> None:
        """See which pairs of the catalog there are for this machine."""
        self.offers.ask("pair", "--json")

    def look_for_drafters(self, target: str) -> None:
        """See what can draft for the model in this folder."""
        if target != self.target:
            self.target = target
            self.candidates.forget()
        self.candidates.ask("pair", "--json", "--target", target)

    def search(self, text: str) -> None:
        """Search the hub; nothing for an empty text."""
        self.searched = text = " ".join(text.split())
        self.found.forget()
        if text:
            self.found.ask("search", "--json", "--", text)

    def remove(self, name: str) -> None:
        """Delete a model from the disk; its name, or its folder where several have that."""
        self._do("remove", "--json", "--yes", "--", name)

    def clean(self, name: str) -> None:
        """Delete what a broken download left."""
        self._do("remove", "--json", "--yes", "--incomplete", "--", name)

    def add_folder(self, folder: str) -> None:
        """Offer the models in another folder too."""
        self._do("folders", "--json", "--add", folder)

    def remove_folder(self, folder: str) -> None:
        """Offer them no more; nothing is deleted."""
        self._do("folders", "--json", "--remove", folder)

    def close(self) -> None:
        """Pause the downloads, and end everything else. Waits for that, 1.5 seconds as a rule."""
        self._closed = True
        self._commands.close(patient=self.downloads.running)

    def _do(self, *command: str) -> None:
        running = self._commands.start(*command)
        running.done.connect(self._on_done)
        running.failed.connect(self._on_failed)

    def _on_done(self, answer: JsonObject) -> None:
        freed = answer.get("freed_bytes")
        self.told.emit(f"Freed {words.size(freed)}." if isinstance(freed, int) else "")
        self._look_again()

    def _on_failed(self, problem: Problem) -> None:
        self.failed.emit(problem)
        self._look_again()

    def _on_shelf(self) -> None:
        if self.shelf.answered and not self.shelf.asking and self.shelf.problem is None:
            self.downloads.replace_all(self.shelf.value.downloads)

    def _look_again(self) -> None:
        """After the disk has changed."""
        if self._closed:
            return
        self.look()
        if self.offers.answered:
            self.look_at_offers()
        if self.candidates.answered:
            self.look_for_drafters(self.target)
