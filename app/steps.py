"""Work that waits for futures without blocking: a generator that continues when each is done.

    def say(text: str) -> Steps:
        message = yield store.say(conversation, text)
        show(message)

Knows futures, timers and Qt's event loop; not what the steps do.
"""

from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from functools import wraps
from threading import RLock, Thread
from typing import Any, Concatenate, Protocol

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from models.errors import Problem

Steps = Generator[Future[Any], Any, None]
Failed = Callable[[Problem], None]


class Stepper(QObject):
    """Runs steps in the thread that it belongs to, whichever thread completes a future.

    A future's exception is raised where the steps wait for it. A `Problem` that they do not catch
    is passed to `failed`; any other exception is a bug and is raised.
    """

    _arrived = Signal(object, object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._closed = False
        self._telling = RLock()  # held while a thread reports; `close` waits for it
        self._waiting: set[Steps] = set()
        # Queued, so that steps never continue inside the call that started them.
        self._arrived.connect(self._go_on, Qt.ConnectionType.QueuedConnection)

    def run(self, steps: Steps, *, failed: Failed) -> None:
        """Start the steps. Returns when they wait for their first future."""
        if not self._closed:
            self._advance(steps, failed, lambda: next(steps))

    def close(self) -> None:
        """Drop all waiting steps, and run no others: what they would use is about to close. Futures
        that end later report nothing, so that the stepper may be deleted."""
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
        future.add_done_callback(lambda done: self._report(steps, failed, done))

    def _report(self, steps: Steps, failed: Failed, done: Future[Any]) -> None:
        """Report from any thread that the future is done. The stepper may be deleted by then."""
        with self._telling, suppress(RuntimeError):
            if not self._closed:
                self._arrived.emit(steps, failed, done)


class _Runs(Protocol):
    def _run(self, steps: Steps) -> None: ...


def in_steps[S: _Runs, **P](
    method: Callable[Concatenate[S, P], Steps],
) -> Callable[Concatenate[S, P], None]:
    """Return the method that runs these steps as its object's `_run` does."""

    @wraps(method)
    def run(self: S, /, *arguments: P.args, **options: P.kwargs) -> None:
        self._run(method(self, *arguments, **options))

    return run


def timer(owner: QObject, milliseconds: int, act: Callable[[], object]) -> QTimer:
    """Return a timer that acts once, this long after each start."""
    made = QTimer(owner, singleShot=True, interval=milliseconds)
    made.timeout.connect(act)
    return made


def in_thread[T](work: Callable[[], T]) -> Future[T]:
    """Do `work` in a thread that does not delay the end of the process."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, name="steps", daemon=True).start()
    return future
