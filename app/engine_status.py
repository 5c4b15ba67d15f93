"""Shows problems with the engine and the disk in one window, with remedies.

Knows the problems and their remedies; not how notices are shown.
"""

from PySide6.QtCore import QObject

from app.chat.composer import Composer
from app.models.readiness import RESTART, ProblemKind, Readiness
from app.notices import Notices, Offer
from app.theme.labels import ToneLabel


class EngineStatus(QObject):
    """Shows the current problems, also in a window that is opened later, and blocks the composer if
    nothing can be sent."""

    def __init__(
        self, readiness: Readiness, *, notices: Notices, composer: Composer, remark: ToneLabel
    ) -> None:
        """`remark` shows a matter in which nothing is to be done."""
        super().__init__(notices)
        self._readiness, self._notices, self._composer = readiness, notices, composer
        self._remark = remark
        readiness.blocked_changed.connect(self._show_blocked)
        readiness.matter_changed.connect(self._show_matter)
        composer.remedy_asked.connect(readiness.try_again)
        if readiness.blocked:
            self._show_blocked()
        for matter in readiness.matters:
            self._show_matter(matter)

    def _show_blocked(self) -> None:
        self._composer.set_blocked(self._readiness.blocked, remedy=self._readiness.remedy)

    def _show_matter(self, matter: ProblemKind) -> None:
        text = self._readiness.matters.get(matter, "")
        offer = Offer(RESTART, self._readiness.restart) if matter == "silence" else None
        if matter == "machine":
            self._remark.say(text)
        elif text:
            self._notices.say(matter, text, "warning", offer=offer)
        else:
            self._notices.take_back(matter)
