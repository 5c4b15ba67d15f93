"""Reads the text in the JSON arguments of a custom tool's call while they are written."""

import json
import re

from engine.server.responses.tools import INPUT

_BEGINNING = re.compile(rf'\s*\{{\s*"{INPUT}"\s*:\s*"')
_CHARACTERS = re.compile(  # whole ones only: two escaped halves of a surrogate pair are one
    r'(?:[^"\\]'
    r"|\\[^u]"
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4})*"
)


class CustomInput:
    """Extracts the text from arguments while they arrive. Attribute: `text` so far.

    If the arguments are not the expected object, the text is the only value in them, or all of
    them: a call that the client can refuse is better than none.
    """

    def __init__(self) -> None:
        self.text = ""
        self._arguments = ""
        self._read = 0  # characters of the arguments that have been read

    def push(self, more: str) -> str:
        """Add arguments; return the text in them."""
        self._arguments += more
        if not self._read:
            beginning = _BEGINNING.match(self._arguments)
            if beginning is None:
                return ""
            self._read = beginning.end()
        whole = _CHARACTERS.match(self._arguments, self._read)
        end = self._read if whole is None else whole.end()
        given: str = json.loads(f'"{self._arguments[self._read : end]}"', strict=False)
        self._read = end
        self.text += given
        return given

    def finish(self) -> str:
        """End the arguments; return the rest of the text."""
        if self._read:
            return ""
        self.text = _only_text(self._arguments)
        return self.text


def _only_text(arguments: str) -> str:
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    texts = list(value.values()) if isinstance(value, dict) else [value]
    match texts:
        case [str(text)]:
            return text
        case _:
            return arguments
