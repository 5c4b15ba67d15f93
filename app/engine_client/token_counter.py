"""How many tokens texts have, counted in another thread while the user types.

Reads the target's tokenizer.json itself, so that the engine need not be asked. Knows no chat
template: the few tokens that one puts around a message are estimated.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.steps import Stepper, Steps, in_thread
from models.errors import Problem

AROUND_A_MESSAGE = 5
_AFTER_MS = 250  # of not typing
_REMEMBERED = 400  # texts

Count = Callable[[str], int]


class TokenCounter(QObject):
    """Signals: `counted(int)`, some time after `count`; of many counts in a row only the last."""

    counted = Signal(int)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._stepper = Stepper(self)
        self._target: Path | None = None
        self._known: dict[str, int] = {}
        self._measure: Count | None = None
        self._texts: tuple[str, ...] = ()
        self._written = 0
        self._busy = False
        self._timer = QTimer(self, singleShot=True, interval=_AFTER_MS)
        self._timer.timeout.connect(self._begin)

    def use(self, target: Path) -> None:
        """Count as the model in this folder does; and count again."""
        if target != self._target:
            self._target, self._measure = target, None
            self._known = {}
        self._timer.start()

    def count(self, texts: tuple[str, ...], *, written: int = 0) -> None:
        """Count the texts of a conversation, soon; `written` tokens of an answer are not among
        them, because it is still being written."""
        typed = texts != self._texts
        self._texts, self._written = texts, written
        if typed or not self._timer.isActive():  # an answer must not delay it endlessly
            self._timer.start()

    @property
    def counting(self) -> Count | None:
        """Counts a text at once, in any thread; None while no tokenizer has been read."""
        measure, known = self._measure, self._known
        if measure is None:
            return None
        return lambda text: known[text] if text in known else measure(text)

    def _begin(self) -> None:
        if self._target is not None and not self._busy:
            self._busy = True
            failed = partial(self._give_up, self._target)
            self._stepper.run(self._steps(self._target), failed=failed)

    def _steps(self, target: Path) -> Steps:
        if self._measure is None:
            measure = yield in_thread(lambda: load_count(target))
            if target == self._target:
                self._measure = measure
        texts, measure, known = self._texts, self._measure, self._known
        new = [text for text in texts if text and text not in known]
        if new and measure is not None:
            numbers = yield in_thread(lambda: [measure(text) for text in new])
            if len(known) > _REMEMBERED:  # every key that is typed makes another text
                for text in known.keys() - set(texts):
                    del known[text]
            known.update(zip(new, numbers, strict=True))
        self._busy = False
        if target != self._target or texts != self._texts:
            self._timer.start()
        else:
            counted = sum(known[text] + AROUND_A_MESSAGE for text in texts if text)
            self.counted.emit(counted + self._written)

    def _give_up(self, target: Path, problem: Problem) -> None:
        self._busy = False  # the engine reports the model's fault
        if target != self._target:
            self._timer.start()


def estimate(text: str) -> int:
    """Return more tokens than most texts have."""
    return len(text) // 3 + 1  # characters in a token, at least


def load_count(target: Path) -> Count:
    """Return a function that counts a text's tokens, from a model's folder. Raises Problem."""
    # Its import takes longer than the window's first paint may.
    from tokenizers import Tokenizer

    try:
        text = (target / "tokenizer.json").read_text(encoding="utf-8-sig")
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # it raises nothing more exact
        raise Problem(
            f"{target} has no tokenizer that can be read.", "Import the model again."
        ) from error
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
