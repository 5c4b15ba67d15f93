"""Reads a chart of an office file as the table that it draws: a row for each category, a column for
each series; as several if series differ in their categories. The numbers are the ones that its
program stored last."""

import re
from contextlib import suppress
from datetime import datetime
from xml.etree.ElementTree import Element

from engine.documents import BETWEEN
from engine.documents.number_formats import FIRST_DAY, FIRST_DAY_OF_1904, with_format
from engine.documents.web import BETWEEN_CELLS
from engine.documents.zips import local_name

_DAY_AND_TIME = re.compile(r"(\d{4}-\d\d-\d\d) \d\d:[\d:.]+")


def chart_text(chart: Element) -> str:
    """The titles of a chart and of its axes, and a table of the series that have the same
    categories; empty if it has no numbers."""
    title = "".join(map(_written, chart.iterfind("{*}chart/{*}title")))
    axes = filter(None, map(_written, chart.iterfind("{*}chart/{*}plotArea/*/{*}title")))
    mark = chart.find("{*}date1904")
    since_1904 = mark is not None and mark.get("val", "1") in ("1", "true")
    first_day = FIRST_DAY_OF_1904 if since_1904 else FIRST_DAY
    tables: list[tuple[dict[int, str], list[str], list[dict[int, str]]]] = []
    for each in chart.iterfind("{*}chart/{*}plotArea/*/{*}ser"):  # filtered ones are deeper
        own, drawn = (
            _points(each.find(f"{{*}}{one}"), first_day)
            | _points(each.find(f"{{*}}{other}"), first_day)
            for one, other in (("cat", "xVal"), ("val", "yVal"))
        )
        alike = (t for t in tables if all(t[0].get(i, text) == text for i, text in own.items()))
        if (table := next(alike, None)) is None:
            tables.append(table := ({}, [], []))
        categories, names, columns = table
        categories |= own
        names.append(each.findtext("{*}tx//{*}v") or "")
        columns.append(drawn)
    texts = []
    for categories, names, columns in tables:
        rows = [["", *names]] if any(names) else []
        for i in (numbers := sorted(set().union(*columns))):
            rows.append([categories.get(i, ""), *(column.get(i, "") for column in columns)])
        texts += ["\n".join(map(BETWEEN_CELLS.join, rows))] if numbers else []
    lines = [f"Chart: {title}" if title else "Chart", *(f"Axis: {axis}" for axis in axes)]
    return "\n".join((*lines, BETWEEN.join(texts))) if texts else ""


def _written(title: Element) -> str:
    """The text of a title: its own, or a cell's."""
    return "".join(each.text or "" for each in title.iter() if local_name(each) in ("t", "v"))


def _number(value: float, number_format: str, first_day: datetime) -> str:
    text = with_format(value, number_format, first_day=first_day) or with_format(value, "General")
    day = _DAY_AND_TIME.fullmatch(text)
    return day[1] if day else text


def _points(values: Element | None, first_day: datetime) -> dict[int, str]:
    """The texts of points, by their numbers from 0."""
    if values is None:
        return {}
    if levels := [_points(each, first_day) for each in values.iterfind(".//{*}lvl")]:
        inner, *_ = levels  # an outer one goes on until its next
        texts = {i: [_before(each, i) for each in reversed(levels)] for i in inner}
        return {i: " ".join(filter(None, text)) for i, text in texts.items()}
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


def _before(points: dict[int, str], number: int) -> str:
    return points.get(max((i for i in points if i <= number), default=0), "")
