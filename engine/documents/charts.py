"""Reads a chart of an office file as the table that it draws: a row for each category, a column for
each series. The numbers are the ones that its program stored last."""

import re
from contextlib import suppress
from datetime import datetime
from xml.etree.ElementTree import Element

from engine.documents.number_formats import FIRST_DAY, FIRST_DAY_OF_1904, with_format
from engine.documents.web import BETWEEN_CELLS
from engine.documents.zips import local_name

_DAY_AND_TIME = re.compile(r"(\d{4}-\d\d-\d\d) \d\d:[\d:.]+")


def chart_text(chart: Element) -> str:
    """The title of a chart and its table; empty if it has no numbers."""
    title = "".join(each.text or "" for each in chart.iterfind("{*}chart/{*}title//{*}t"))
    series = list(chart.iterfind(".//{*}ser"))
    mark = chart.find("{*}date1904")
    since_1904 = mark is not None and mark.get("val", "1") in ("1", "true")
    first_day = FIRST_DAY_OF_1904 if since_1904 else FIRST_DAY
    names = [each.findtext("{*}tx//{*}v") or "" for each in series]
    categories: dict[int, str] = {}
    columns: list[dict[int, str]] = []
    for each in series:
        for kind in ("cat", "xVal"):
            categories = {**_points(each.find(f"{{*}}{kind}"), first_day), **categories}
        drawn = [_points(each.find(f"{{*}}{kind}"), first_day) for kind in ("val", "yVal")]
        columns.append({**drawn[0], **drawn[1]})
    numbers = sorted(set().union(*columns))
    rows = [["", *names]] if any(names) else []
    rows += [[categories.get(i, ""), *(column.get(i, "") for column in columns)] for i in numbers]
    lines = [f"Chart: {title}" if title else "Chart", *map(BETWEEN_CELLS.join, rows)]
    return "\n".join(lines) if numbers else ""


def _number(value: float, number_format: str, first_day: datetime) -> str:
    text = with_format(value, number_format, first_day=first_day) or with_format(value, "General")
    day = _DAY_AND_TIME.fullmatch(text)
    return day[1] if day else text


def _points(values: Element | None, first_day: datetime) -> dict[int, str]:
    """The texts of points, by their numbers from 0."""
    if values is None:
        return {}
    are_numbers = any(local_name(each) in ("numCache", "numLit") for each in values.iter())
    number_format = values.findtext(".//{*}formatCode") or "General"
    points: dict[int, str] = {}
    for point in values.iterfind(".//{*}pt"):
        text = " ".join("".join(point.itertext()).split())
        with suppress(ValueError):
            text = _number(float(text), number_format, first_day) if are_numbers else text
        index = point.get("idx", "")
        if index.isdecimal():
            points[int(index)] = text
    return points
