"""The text in the JSON arguments of a custom tool's call, while they are still being written."""

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
    """Takes arguments as they come, and gives the text in them. `text` is what it has given.

    Arguments that are no object with the one text in it are the text themselves, or the only text
    in them: better a call that the client can refuse than none.
    """

    def __init__(self) -> None:
        self.text = ""
        self._arguments = ""
        self._read = 0  # how much of them has been given

    def push(self, more: str) -> str:
        """More of the text."""
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
        """The rest of the text."""
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
