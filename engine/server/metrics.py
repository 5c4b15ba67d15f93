"""Counts and times for Prometheus, in its text format 0.0.4. No label names a model, a prompt or a
client."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "slipstream_"
_GAUGES = {
    "running": "Requests that are running.",
    "waiting": "Requests that are waiting.",
    "models_loaded": "Models that are loaded.",
}
_COUNTERS = {
    "requests_total": "Requests, by endpoint and status.",
    "prompt_tokens_total": "Tokens of prompts.",
    "cached_tokens_total": "Tokens of prompts that had been read before.",
    "generated_tokens_total": "Tokens of answers.",
    "drafted_tokens_total": "Drafted tokens.",
    "accepted_tokens_total": "Drafted tokens that were accepted.",
    "forced_tokens_total": "Tokens that a grammar left no choice for.",
    "rounds_total": "Rounds with a pass of the target.",
}
_TIMES: dict[str, tuple[str, Sequence[float]]] = {
    "time_to_first_token_seconds": (
        "From a request to its first token.",
        (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    ),
    "inter_token_seconds": (
        "Between the tokens of an answer, a mean for each round.",
        (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1),
    ),
    "request_seconds": (
        "From a request to the end of its answer.",
        (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300),
    ),
}


class _Times:
    """A histogram."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, seconds: float, times: int) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += times
        self._sum += seconds * times

    def lines(self, name: str) -> Iterator[str]:
        below = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            below += count
            yield f'{name}_bucket{{le="{bound}"}} {below}'
        yield f"{name}_sum {self._sum}"
        yield f"{name}_count {below}"


class Metrics:
    """Counters and histograms since the server's start."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[tuple[tuple[str, str], ...]]] = {
            name: Counter() for name in _COUNTERS
        }
        self._times = {name: _Times(bounds) for name, (_, bounds) in _TIMES.items()}

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        """Add to a counter."""
        self._counts[name][tuple(labels.items())] += by

    def time(self, name: str, seconds: float, times: int = 1) -> None:
        """Add to a histogram."""
        self._times[name].add(seconds, times)

    def text(self, **gauges: int) -> str:
        """All metrics in Prometheus' format, with the present values of `gauges`."""
        return "\n".join((*self._lines(gauges), ""))

    def _lines(self, gauges: dict[str, int]) -> Iterator[str]:
        for name, value in gauges.items():
            yield from _head(name, _GAUGES[name], "gauge")
            yield f"{_PREFIX}{name} {value}"
        for name, counts in self._counts.items():
            yield from _head(name, _COUNTERS[name], "counter")
            for labels, value in sorted(counts.items()):
                yield f"{_PREFIX}{name}{_in_braces(labels)} {value}"
        for name, times in self._times.items():
            yield from _head(name, _TIMES[name][0], "histogram")
            yield from times.lines(_PREFIX + name)


def _head(name: str, help: str, kind: str) -> Iterator[str]:
    yield f"# HELP {_PREFIX}{name} {help}"
    yield f"# TYPE {_PREFIX}{name} {kind}"


def _in_braces(labels: Iterable[tuple[str, str]]) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
