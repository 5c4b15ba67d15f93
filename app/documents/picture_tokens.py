"""How many tokens pictures take in the model that is loaded: the engine counts each once."""

from PySide6.QtCore import QObject, Signal

from app.engine_client.engine_process import EngineProcess
from engine.process.protocol import Counted
from engine.request import ChatMessage, Picture


class PictureTokens(QObject):
    """Signals: `changed()`: another picture is counted."""

    changed = Signal()

    def __init__(self, engine: EngineProcess, parent: QObject) -> None:
        super().__init__(parent)
        self._engine = engine
        self._asked: dict[str, str] = {}  # the picture's digest, by the id of the question
        self._known: dict[str, int] = {}  # by digest
        engine.counted.connect(self._on_counted)
        engine.loading.connect(self._forget)

    def of(self, picture: Picture) -> int:
        """Return the tokens of a picture, with those around a message; 0 until they are known."""
        if picture.digest not in self._known:
            self._known[picture.digest] = 0
            id = self._engine.count([ChatMessage("user", "?", pictures=(picture,))])
            self._asked[id] = picture.digest
        return self._known[picture.digest]

    def _on_counted(self, counted: Counted) -> None:
        if (digest := self._asked.pop(counted.id, None)) is not None:
            self._known[digest] = counted.tokens
            self.changed.emit()

    def _forget(self) -> None:
        self._known.clear()
        self._asked.clear()
