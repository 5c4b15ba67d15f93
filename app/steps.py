"""Work that waits for futures and blocks nothing: a generator that continues when each is done.

    def say(text: str) -> Steps:
        message = yield store.say(conversation, text)
        show(message)

Knows futures and Qt's event loop; not what is done in the steps.
"""

from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from threading import RLock, Thread
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal

from models.errors import Problem

Steps = Generator[Future[Any], Any, None]
Failed = Callable[[Problem], None]


class Stepper(QObject):
    """Runs steps in the thread that it belongs to, whichever thread completes a future.

    A future's exception is raised where the steps wait for it. A `Problem` that they do not catch
    is passed to `failed`; any other exception is a bug and surfaces as one.
    """

    _arrived = Signal(object, object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._closed = False
        self._telling = RLock()  # held while a thread reports: who closes waits for that
        self._waiting: set[Steps] = set()
        # Queued, so that steps never continue inside the call that began them.
        self._arrived.connect(self._go_on, Qt.ConnectionType.QueuedConnection)

    def run(self, steps: Steps, *, failed: Failed) -> None:
        """Begin at once, and return when the steps wait for their first future."""
        if not self._closed:
            self._advance(steps, failed, lambda: next(steps))

    def close(self) -> None:
        """Drop all steps that wait, and run no others: what they would ask is about to close.
        Futures that end from now on report nothing, so that the stepper may be deleted."""
        with self._telling:
            self._closed = True
        waiting, self._waiting = self._waiting, set()
        for steps in waiting:
            steps.close()

    def _go_on(self, steps: Steps, failed: Failed, future: Future[Any]) -> None:
        if self._closed:
            return
        self._waiting.discard(steps)
        error = future.exception()
        if error is None:
            self._advance(steps, failed, lambda: steps.send(future.result()))
        else:
            self._advance(steps, failed, lambda: steps.throw(error))

    def _advance(self, steps: Steps, failed: Failed, resume: Callable[[], Future[Any]]) -> None:
        try:
            future = resume()
        except StopIteration:
            return
        except Problem as problem:
            failed(problem)
            return
        if self._closed:
            steps.close()
            return
        self._waiting.add(steps)
        future.add_done_callback(lambda done: self._tell(steps, failed, done))

    def _tell(self, steps: Steps, failed: Failed, done: Future[Any]) -> None:
        """Report from any thread that the future is done; the stepper may be gone by then."""
        with self._telling, suppress(RuntimeError):
            if not self._closed:
                self._arrived.emit(steps, failed, done)


def in_thread[T](work: Callable[[], T]) -> Future[T]:
    """Do `work` in a thread that the end of the process does not wait for."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, name="steps", daemon=True).start()
    return future
