"""The race on the screen: the question, the verdict, and two answers side by side with their
clocks."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QCloseEvent, QGuiApplication, QPixmap
from PySide6.QtWidgets import QSizePolicy, QWidget

from app import files
from app.conversations.markdown_part import part
from app.copying import CopyButton
from app.layout import FREE, column_of, row_of, text_area, text_button
from app.race.race import RACERS, Race, Racer, RaceResult
from app.replay.player import AnswerPlayer
from app.rounds import figures
from app.rounds.marks import marked
from app.rounds.pace import PaceTimer
from app.rounds.trace import Piece
from app.theme.dialog import Dialog
from app.theme.labels import StatusLine, plain_label
from app.theme.style import figures_font, scaled_font
from engine.conversation.rounds import EventOrRound, Round, Token
from engine.conversation.stats import NoRatio, update
from engine.events import Prefill, Stats, Text, Verdict
from engine.request import ChatMessage, Request
from engine.stretches import Stretch, extend, joined
from models.errors import Problem
from models.files import replacing, writing
from models.in_words import clean, short_model

_READY = "The same answer twice: with drafts, and without"
_BOTH_READ = "Both are reading the prompt"
_ALONE = "Starts when other answers have finished"
_RULES = (
    "Both always take the likeliest token, so they must write the same text. They take turns, and "
    "each clock runs only in its own turns."
)


class RaceDialog(Dialog):
    """Races on the question in its field, as often as the user starts it.

    Attributes: `question`, the field; `verdict`, the large line on top; `result_line`, the details.
    """

    def __init__(
        self,
        race: Race,
        messages: Sequence[ChatMessage],
        request: Request,
        *,
        names: tuple[str, str],
        parent: QWidget | None = None,
    ) -> None:
        """`names` are the target's and its drafts'."""
        super().__init__(parent)
        self._target, drafts = names
        target = short_model(self._target)
        self._race, self._messages, self._request = race, tuple(messages), request
        self._running = False  # this dialog's race, not another dialog's
        self.tracks = {
            "plain": RaceTrack(f"{target}, without drafts"),
            "speculative": RaceTrack(f"{target}, {drafts[:1].lower()}{drafts[1:]}"),
        }
        self._result: RaceResult | None = None
        self.verdict = StatusLine(wraps=True, strong=True)
        self.result_line = StatusLine(wraps=True)
        self.verdict.setFont(scaled_font(self.font(), 1.9, bold=True))
        name, asked = "The question that both answer", messages[-1]
        self.question = text_area(asked.content, name=name, lines=3, fixed=bool(asked.attached))
        self._asked = self.question.toPlainText()  # the field has other spaces and line ends
        self._copy = CopyButton("Copy the result", self._summary, label="Copy result")
        self._share = text_button("Share picture…", self.share)
        self._export = text_button("Export…", self.export)
        self._start = text_button("", lambda: (self.stop if self._running else self.start)())
        self._close = text_button("Close", self.reject)
        self.setWindowTitle("Race: plain against speculative decoding")
        self.setWindowFlag(Qt.WindowType.WindowMaximizeButtonHint)
        self.setSizeGripEnabled(True)
        self._arrange()
        race.happened.connect(self._on_happening)
        race.finished.connect(self._on_finished)
        race.failed.connect(self._on_failed)
        self.verdict.say(_READY)
        self.result_line.say(_RULES)
        self._enable()
        self._start.setDefault(True)
        self._start.setFocus()

    def _arrange(self) -> None:
        tracks = row_of(*((self.tracks[racer], 1) for racer in RACERS), gap=20)
        buttons = row_of(self._copy, self._share, self._export, FREE, self._start, self._close)
        parts = (self.verdict, self.result_line, self.question, (tracks, 1), buttons)
        column_of(*parts, on=self, margins=(20, 16, 20, 14), gap=12)
        window = self.parentWidget()
        size = window.window().size() if window else QGuiApplication.primaryScreen().availableSize()
        self.resize(max(980, round(0.94 * size.width())), max(620, round(0.92 * size.height())))

    def start(self) -> None:
        """Start the race, unless one is running."""
        if self._race.running:
            if not self._running:
                self.result_line.say("Another race is running. Wait until it has finished.")
            return
        asked = self.question.toPlainText()
        if not asked.strip():
            self.result_line.say("Write a question first.", "warning")
            return
        if asked != self._asked:
            last = replace(self._messages[-1], content=asked)
            self._asked, self._messages = asked, (*self._messages[:-1], last)
        self._result, self._running = None, True
        for track in self.tracks.values():
            track.clear()
        self._race.start(self._messages, self._request)
        self.verdict.say(_ALONE if self._race.waits else _BOTH_READ)
        self.result_line.say(_RULES)
        self._enable()

    def stop(self) -> None:
        """Stop the race, if it is running."""
        if self._running:
            self._race.stop()

    def report(self) -> str:
        """The race in Markdown: question, result, figures and both answers."""
        if self._result is None:
            return ""
        lines = [
            f"# {self.windowTitle()}",
            self._target,
            part(self._messages[-1].content),
            result_text(self._result),
        ]
        for track in self.tracks.values():
            lines += [f"## {track.title}", f"{track.clock.text()}; {track.figures.text()}"]
            lines.append(part(track.answer.text))
        return "\n\n".join(lines) + "\n"

    def _summary(self) -> str:
        """The result and the figures."""
        lines = [result_text(self._result)] if self._result else []
        for track in self.tracks.values():
            lines.append(f"{track.title}: {track.clock.text()}; {track.figures.text()}")
        return "\n".join(lines)

    def export(self) -> None:
        """Ask for a file for the report, and write it."""

        def write(path: Path) -> None:
            try:
                files.write_text(path, self.report())
            except Problem as problem:
                self.result_line.say(str(problem), "warning")

        files.ask_to_save(self, "Export the race", "Race.md", write)

    def picture(self) -> QPixmap:
        """The race as a picture, without the buttons."""
        return self.grab(QRect(0, 0, self.width(), self._close.y() - 6))

    def share(self) -> None:
        """Ask for a file for a picture of the race, and write it."""
        picture = self.picture()

        def write(path: Path) -> None:
            try:
                with writing(path), replacing(path) as partial:
                    if not picture.save(str(partial)):
                        raise OSError("the picture was not saved")
            except Problem as problem:
                self.result_line.say(str(problem), "warning")

        files.ask_to_save(self, "Share the race", "Race.png", write)

    def _enable(self) -> None:
        again = "Race again" if self._result is not None else "Start the race"
        self._start.setText("Stop" if self._running else again)
        self.question.setEnabled(not self._running)
        for button in (self._copy, self._share, self._export):
            button.setEnabled(self._result is not None)

    def _on_happening(self, racer: Racer, happening: EventOrRound) -> None:
        if not self._running:
            return
        self.tracks[racer].push(happening, self._race.traces[racer].final)
        match happening:
            case Prefill():
                self.verdict.say(_BOTH_READ)
            case Round(verdict=Verdict()):
                self._show_progress()

    def _show_progress(self) -> None:
        plain, drafted = (self.tracks[racer].stats.committed for racer in RACERS)
        self.verdict.say(f"{figures.count(drafted, 'token')} with drafts, {plain:,} without")

    def _on_finished(self, result: RaceResult) -> None:
        if not self._running:
            return
        self._end(result)
        difference = result.difference
        equal = difference is None or difference.near_tie
        self.verdict.say(verdict_text(result), "good" if equal else "warning")
        self.result_line.say(result_text(result))

    def _on_failed(self, problem: Problem) -> None:
        if not self._running:
            return
        self._end(None)
        self.verdict.say(problem.message, "warning")
        self.result_line.say(problem.remedy)

    def _end(self, result: RaceResult | None) -> None:
        self._result, self._running = result, False
        for track in self.tracks.values():
            track.finish()
        self._enable()

    def done(self, result: int) -> None:
        """Stop the race, however the dialog is closed."""
        self.stop()
        super().done(result)

    def closeEvent(self, event: QCloseEvent) -> None:
        self.stop()
        super().closeEvent(event)


class RaceTrack(QWidget):
    """One racer: its clock, its figures, and its text with its drafts."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.title = clean(title)
        self._heading, self.clock, self.figures = (
            plain_label(self.title, tone="muted"),
            plain_label("\u2013"),
            plain_label("", tone="muted"),
        )
        self.answer = AnswerPlayer()
        self.answer.name(f"{title}: the answer")
        self.answer.provenance.fades_after = math.inf
        self.clock.setAccessibleName(f"{title}: the clock")
        self._pace = PaceTimer(self)
        self._pace.due.connect(self.answer.append)
        self.stats = Stats()
        self.clock.setFont(figures_font(scaled_font(self.font(), 2.2, bold=True)))
        self.figures.setFont(figures_font(self.font()))
        self.figures.setWordWrap(True)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Expanding)
        words = (self._heading, self.clock, self.figures)
        column_of(*words, 6, (self.answer, 1), on=self, margins=0, gap=4)
        self.clear()

    def clear(self) -> None:
        """Show that it has not started."""
        self.stats = Stats()
        self._stretches: list[Stretch] = []
        self.answer.clear()
        self.clock.setText("\u2013")
        self.figures.setText("Not started")
        self._pace.clear()

    def push(self, happening: EventOrRound, pieces: tuple[Piece, ...]) -> None:
        """Show the next event or round of this racer, whose tokens are these so far."""
        match happening:
            case Prefill():
                self.stats = update(self.stats, happening)
                read = f"{happening.processed:,} of {happening.total:,}"
                self.figures.setText(f"Reading the prompt: {read} tokens")
            case Text():
                extend(self._stretches, happening.parts)
                self.answer.set_stretches(joined(self._stretches))
                self.answer.provenance.set_pieces(pieces)
                self._pace.push(happening)
            case Round():
                self._pace.push(happening)
                self._count(happening)

    def finish(self) -> None:
        """End the text."""
        self._pace.flush()
        self.answer.finish()

    def _count(self, round: Round) -> None:
        if round.verdict is not None:
            self.stats = stats = update(self.stats, round.verdict)
            self.clock.setText(figures.seconds(stats.decode_seconds))
            speed = stats.tokens_per_second or 0.0
            tokens = figures.count(stats.committed, "token")
            passes = figures.count(stats.rounds, "pass")
            self.figures.setText(f"{speed:.1f} tokens/s, {tokens} in {passes}")


def verdict_text(result: RaceResult) -> str:
    """Return the verdict in a few words."""
    difference = result.difference
    if difference is None:
        same = "the same text"
    elif difference.near_tie:
        same = f"the same up to a near tie at token {difference.place:,}"
    else:
        return f"Different from token {difference.place:,} on: a fault of Slipstream"
    if isinstance(result.ratio, NoRatio):
        return same.capitalize()
    return f"{result.ratio:.2f} times as fast, and {same}"


def result_text(result: RaceResult) -> str:
    """Say whether both answers are identical, and how much faster one was."""
    difference = result.difference
    if difference is None:
        same = f"Identical: all {figures.count(result.tokens, 'token')} are the same."
    else:
        differing = (
            f"plain decoding {_outcome(difference.plain)}, "
            f"speculative decoding {_outcome(difference.speculative)}"
        )
        place, fork = difference.place, difference.fork
        if fork is None:
            same = f"The answers differ from token {place:,} on: {differing}."
        elif fork.near_tie:
            same = (
                f"Equal up to a near tie at token {place:,}: {differing}. Their logits are "
                f"{fork.margin:.3g} apart there, and reading several tokens at once rounds them by "
                f"up to {fork.allowed / 2:.3g}."
            )
        else:
            moves = f"rounding moves them by no more than {fork.allowed / 2:.3g}"
            same = (
                f"Different from token {place:,} on, which is a fault of Slipstream: {differing}. "
                f"Their logits are {fork.margin:.3g} apart, and "
                f"{moves if fork.allowed else 'drafts do not round here'}. Export the race, "
                "and send it with Help > Report a problem."
            )
    if isinstance(result.ratio, NoRatio):
        if not result.tokens:
            return same
        return f"{same} No speedup: {result.ratio.value}."
    faster = f"{result.ratio:.2f} times as fast"
    return f"{same} While both were writing, speculative decoding was {faster}."


def _outcome(token: Token | None) -> str:
    return (
        "ended" if token is None else f"wrote \u201c{marked(token.text)}\u201d (p = {token.p:.3g})"
    )
