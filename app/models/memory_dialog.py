"""A dialog for the memory of conversations with the chosen target: their length, the number type of
the caches, and when the model is unloaded. Knows the loader and the settings."""

from PySide6.QtWidgets import QFormLayout, QSizePolicy, QWidget

from app.choice_box import Choice, ChoiceBox
from app.layout import column_of
from app.models.loader import ModelLoader
from app.settings import Settings
from app.theme.dialog import Dialog
from app.theme.labels import accepting, plain_label
from engine.process.protocol import Memory

_CONTEXTS = (
    Choice("0", "As the model allows"),
    *(Choice(str(1024 << double), f"{1024 << double:,} tokens") for double in range(8)),
)
_CACHES = (
    Choice("0", "Full", "Exact, and the fastest"),
    Choice("8", "Half (8-bit)", "Half the memory, after the first 5,000 tokens"),
    Choice("4", "A quarter (4-bit)", "A quarter of the memory; answers may get worse"),
)
_MINUTES = (
    Choice("0", "Never"),
    Choice("5", "After 5 minutes"),
    Choice("15", "After 15 minutes"),
    Choice("60", "After an hour"),
)
_WORDS = (
    "For {}. A model that does not fit in memory with a conversation of this length is not loaded. "
    "Changes load the model again."
)


class MemoryDialog(Dialog):
    """Attributes: the boxes `context`, `caches` and `rest`."""

    def __init__(self, loader: ModelLoader, settings: Settings, *, parent: QWidget) -> None:
        super().__init__(parent)
        self._loader, self._target = loader, loader.pair.target
        self.setWindowTitle("Context and memory")
        memory, rest = loader.memory, str(settings.unload_minutes)
        self.context = ChoiceBox("Longest conversation", _CONTEXTS, str(memory.context))
        self.caches = ChoiceBox("Conversation cache", _CACHES, str(memory.cache_bits))
        self.rest = ChoiceBox("Unload when not in use", _MINUTES, rest)
        words = plain_label(_WORDS.format(loader.names[0]), wraps=True)
        rows = QFormLayout()
        rows.setSpacing(10)
        rows.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow)
        for box in (self.context, self.caches, self.rest):
            box.setMinimumContentsLength(20)
            box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
            rows.addRow(box.accessibleName(), box)
        parts = (words, rows, accepting(self, "Apply"))
        column_of(*parts, on=self, margins=(18, 16, 18, 14), gap=14)
        self.setMinimumWidth(440)
        self.accepted.connect(self._apply)

    def _apply(self) -> None:
        self._loader.rest_after(int(self.rest.value))
        memory = Memory(int(self.context.value), int(self.caches.value))
        self._loader.use_memory(self._target, memory)
