"""Messages between processes as lines of JSON, each an object that names its kind:

    {"event": "loaded", "id": "7", "target": "/models/a"}

Knows lines and names. What the fields of a message may hold is decided by `typed_json`, whose error
is the only one here too.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from models.errors import Problem
from models.typed_json import WrongJson, decode, named, short


class Language[Message]:
    """The messages of one kind of pipe: dataclasses by their names.

    Attributes: `kinds`, these; `tag`, the field with the name; `longest_bytes` of a line, with its
    end.
    """

    def __init__(
        self, tag: str, kinds: Mapping[str, type[Any]], *, longest_bytes: int = 1 << 20
    ) -> None:
        self.tag, self.kinds, self.longest_bytes = tag, dict(kinds), longest_bytes
        self._names = {kind: name for name, kind in kinds.items()}
        example = json.dumps({tag: [*kinds][-1]})
        self._remedy = f"Send one JSON object a line, such as {example}."

    def name(self, message: Message) -> str:
        return self._names[type(message)]

    def to_json(self, message: Message) -> str:
        fields = dataclasses.asdict(message)  # type: ignore[call-overload] # they are dataclasses
        return json.dumps({self.tag: self.name(message), **fields})

    def to_line(self, message: Message) -> bytes:
        return self.to_json(message).encode() + b"\n"

    def read(self, line: bytes) -> Message:
        """The message in a line. Raises WrongJson."""
        return self.message(self.fields(line))

    def fields(self, line: bytes) -> dict[str, Any]:
        """The object in a line, with any keys. Raises WrongJson."""
        if len(line) > self.longest_bytes:
            message = f"The line is over {self.longest_bytes:,} bytes."
            raise WrongJson("too long", "", message, "Send shorter messages.")
        if not line.strip():
            raise WrongJson("empty", "", "The line is empty.", self._remedy)
        try:
            value = json.loads(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            message = f"Byte {error.start} of the line is not UTF-8."
            raise WrongJson("not utf 8", "", message, self._remedy) from None
        except RecursionError:
            message = "The line is nested too deeply."
            raise WrongJson("nested too deeply", "", message, self._remedy) from None
        except ValueError as error:  # JSONDecodeError, or a number with too many digits
            raise WrongJson(
                "not json", "", f"The line is not JSON: {error}.", self._remedy
            ) from None
        if not isinstance(value, dict):
            message = f"The line is {named(value)}, not an object."
            raise WrongJson("not an object", "", message, self._remedy)
        return value

    def message(self, fields: Mapping[str, Any]) -> Message:
        """The message that an object holds. Raises WrongJson."""
        name = fields.get(self.tag)
        if not isinstance(name, str) or name not in self.kinds:
            why = f"The {self.tag} {short(name)} is unknown."
            raise WrongJson("unknown name", "", why, f"Use {', '.join(self.kinds)}.")
        rest = {key: value for key, value in fields.items() if key != self.tag}
        try:
            message: Message = decode(self.kinds[name], rest, place=name)
        except Problem as problem:  # of the dataclass, about its values
            raise WrongJson("wrong value", name, problem.message, problem.remedy) from None
        return message


def named_by_class(*kinds: type[Any]) -> dict[str, type[Any]]:
    """Names for dataclasses: their classes' names, in lower case."""
    return {kind.__name__.lower(): kind for kind in kinds}
