"""Work that waits for futures without waiting: a generator that goes on when each is done.

    def say(text: str) -> Steps:
        message = yield store.say(conversation, text)
        show(message)

Knows futures and Qt's event loop; not what is done in the steps.
"""

from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal

from models.errors import Problem

Steps = Generator[Future[Any], Any, None]
Failed = Callable[[Problem], None]


class Stepper(QObject):
    """Runs steps in the thread it lives in, whatever thread a future is done in.

    A future's exception is raised where the steps wait for it. A `Problem` that they let
    through goes to `failed`; anything else is a bug and surfaces as one.
    """

    _arrived = Signal(object, object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._closed = False
        # Queued, so that steps never go on inside the call that began them.
        self._arrived.connect(self._go_on, Qt.ConnectionType.QueuedConnection)

    def run(self, steps: Steps, *, failed: Failed) -> None:
        """Begin at once; return when the first future is waited for."""
        if not self._closed:
            self._advance(steps, failed, lambda: next(steps))

    def close(self) -> None:
        """Drop all steps that wait, and run no others: what they would ask is about to close."""
        self._closed = True

    def _go_on(self, steps: Steps, failed: Failed, future: Future[Any]) -> None:
        if self._closed:
            steps.close()
            return
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
        future.add_done_callback(lambda done: self._tell(steps, failed, done))

    def _tell(self, steps: Steps, failed: Failed, done: Future[Any]) -> None:
        """In whatever thread; whom it was for may be gone by now."""
        with suppress(RuntimeError):
            self._arrived.emit(steps, failed, done)


def in_thread[T](work: Callable[[], T]) -> Future[T]:
    """`work` in a thread that does not keep the process from ending: it is cut off then."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, name="steps", daemon=True).start()
    return future
