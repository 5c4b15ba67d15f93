"""The parts of a reply, as `engine.replies.parser` returns them piece by piece."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContentPart:
    """Text for the reader."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """Text of the reasoning, without its marks."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegan:
    """A call of the tool `name` began. Calls are numbered from 0 by `index`, broken ones too."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A piece of the arguments; all pieces joined are the JSON text of an object.

    The last piece comes with the end of the call, so arguments that parse are always those of a
    whole call, never of one that was cut off.
    """

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The call is whole."""

    index: int


@dataclass(frozen=True, slots=True)
class CallBroken:
    """The text that began as a call is none: it cannot be read, or the reply ended within it.

    Its whole text follows as content. A client that has seen the call begin must take it back.
    """

    index: int


Part = ContentPart | ReasoningPart | CallBegan | CallArguments | CallEnded | CallBroken


def joined(parts: list[Part]) -> list[Part]:
    """Join neighbouring parts that continue each other."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        match last, part:
            case (ContentPart(before), ContentPart(text)):
                found[-1] = ContentPart(before + text)
            case (ReasoningPart(before), ReasoningPart(text)):
                found[-1] = ReasoningPart(before + text)
            case (CallArguments(index, before), CallArguments(same, text)) if index == same:
                found[-1] = CallArguments(index, before + text)
            case _:
                found.append(part)
    return found
