"""Reads a chart of an office file as the table that it draws: a row for each category, a column for
each series. The numbers are those that its program stored last."""

import re
from contextlib import suppress
from datetime import datetime, timedelta
from xml.etree.ElementTree import Element

from engine.documents.number_formats import with_format
from engine.documents.web import BETWEEN_CELLS
from engine.documents.zips import local_name

_NOT_SHOWN = re.compile(r'"[^"]*"|\\.|_.|\[[^\]]*\]|General')
_DATE = re.compile("[dmy]", re.IGNORECASE)
_FIRST_DAY = datetime(1899, 12, 30)


def chart_text(chart: Element) -> str:
    """The title of a chart and its table; empty if it has no numbers."""
    title = "".join(each.text or "" for each in chart.iterfind("{*}chart/{*}title//{*}t"))
    series = list(chart.iterfind(".//{*}ser"))
    names = [each.findtext("{*}tx//{*}v") or "" for each in series]
    categories: dict[int, str] = {}
    columns: list[dict[int, str]] = []
    for each in series:
        for kind in ("cat", "xVal"):
            categories = {**_points(each.find(f"{{*}}{kind}")), **categories}
        columns.append({**_points(each.find("{*}val")), **_points(each.find("{*}yVal"))})
    numbers = sorted(set().union(*columns))
    rows = [["", *names]] if any(names) else []
    rows += [[categories.get(i, ""), *(column.get(i, "") for column in columns)] for i in numbers]
    lines = [f"Chart: {title}" if title else "Chart", *map(BETWEEN_CELLS.join, rows)]
    return "\n".join(lines) if numbers else ""


def _number(value: float, number_format: str) -> str:
    if _DATE.search(_NOT_SHOWN.sub("", number_format)):
        with suppress(OverflowError):
            return (_FIRST_DAY + timedelta(days=value)).date().isoformat()
    return with_format(value, number_format)


def _points(values: Element | None) -> dict[int, str]:
    """The texts of points, by their numbers from 0."""
    if values is None:
        return {}
    are_numbers = any(local_name(each) in ("numCache", "numLit") for each in values.iter())
    number_format = values.findtext(".//{*}formatCode") or "General"
    points: dict[int, str] = {}
    for point in values.iterfind(".//{*}pt"):
        text = " ".join("".join(point.itertext()).split())
        with suppress(ValueError):
            text = _number(float(text), number_format) if are_numbers else text
        index = point.get("idx", "")
        if index.isdecimal():
            points[int(index)] = text
    return points
