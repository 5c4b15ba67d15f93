"""The buttons of a message in a row: its versions, copy, and edit or regenerate; an answer also has
buttons that show how it was written.

Knows buttons and the commands that they give.
"""

from collections.abc import Callable
from functools import partial

from PySide6.QtWidgets import QWidget

from app.chat.message_view import MessageCommands
from app.layout import row_of
from app.markdown.formats import Formats
from app.theme.hover_button import HoverButton
from app.theme.labels import plain_label
from app.theme.style import small_font


class MessageActions(QWidget):
    """Attributes: `buttons`, from left to right; `show_buttons`, of an answer."""

    def __init__(
        self,
        *,
        name: str,
        answer: bool,
        formats: Formats,
        id: int,
        commands: MessageCommands,
        copy: Callable[[], None],
    ) -> None:
        super().__init__()
        self._id, self._commands = id, commands
        self._number = 1  # of the version
        self._formats = formats
        self._back = self._button("\u2039", "Previous version", partial(self._turn, -1))
        self._forth = self._button("\u203a", "Next version", partial(self._turn, 1))
        self._versions = plain_label(tone="muted")
        self._copy = self._button("Copy", f"Copy the message by {name}", copy)
        change = self._button(
            "Regenerate" if answer else "Edit",
            "Write this answer again" if answer else "Edit and resend this message",
            lambda: (commands.regenerate if answer else commands.edit)(id),
        )
        self.show_buttons = self._make_show_buttons() if answer else ()
        self.buttons = (*self.show_buttons, self._back, self._forth, self._copy, change)
        versions = (self._back, self._versions, self._forth)
        row_of(*self.show_buttons, 6, *versions, 6, self._copy, change, on=self, margins=0, gap=2)
        self.set_branches(1, 1)
        self.set_shown(False)
        self.set_formats(formats)

    def set_branches(self, number: int, count: int) -> None:
        """Show that this is version `number` of `count`."""
        self._number, several = number, count > 1
        for part in (self._back, self._forth, self._versions):
            part.setVisible(several)
        self._versions.setText(f"{number}/{count}")
        self._versions.setAccessibleName(f"Version {number} of {count}")
        self._back.setEnabled(number > 1)
        self._forth.setEnabled(number < count)

    def set_shown(self, shown: bool) -> None:
        """Show the buttons that show how an answer was written, or leave them out."""
        for button in self.show_buttons:
            button.setVisible(shown)

    def check_tokens(self, shown: bool) -> None:
        """Mark the button Tokens while the tokens are shown."""
        for button in self.show_buttons[:1]:
            button.setChecked(shown)

    def set_awake(self, awake: bool) -> None:
        """Paint the buttons to copy and to change the message, or hide them."""
        for button in self.buttons[-2:]:
            button.set_awake(awake)

    def acknowledge_copy(self) -> None:
        """Show on the button that the message was copied."""
        self._copy.acknowledge()

    def set_formats(self, formats: Formats) -> None:
        """Use another font and other colours."""
        for button in self.buttons:
            button.follow_font(formats.font)
        self._versions.setFont(small_font(formats.font, scale=0.9))

    def _make_show_buttons(self) -> tuple[HoverButton, ...]:
        id, commands = self._id, self._commands
        tokens = self._button(
            "Tokens",
            "Show how each word was written",
            lambda: commands.show_tokens(id, tokens.isChecked()),
        )
        tokens.setCheckable(True)
        replay = self._button(
            "Replay", "Replay this answer, round by round", lambda: commands.replay(id)
        )
        race = self._button(
            "Race", "Compare speed with and without drafts", lambda: commands.race(id)
        )
        return tokens, replay, race

    def _turn(self, by: int) -> None:
        self._commands.show_version(self._id, self._number + by)

    def _button(self, text: str, name: str, act: Callable[[], None]) -> HoverButton:
        button = HoverButton(text, self._formats.font, parent=self)
        button.setAccessibleName(name)
        button.setToolTip(name)
        button.clicked.connect(lambda: act())
        return button
