"""Presentations beyond the samples: what stands on every slide, and what is no presentation."""

import pytest

from engine.documents.slides import read_pptx
from models.errors import Problem
from tests.support.documents.office import chart, pptx, related, shape, slide, zipped


def test_what_stands_on_every_slide_is_left_out() -> None:
    for kind in ("dt", "ftr", "hdr", "sldNum"):
        (section,) = read_pptx(pptx([slide(shape("a"), shape("b", kind=kind))])).sections
        assert section.text == "a"


def test_fields_and_runs_of_a_paragraph() -> None:
    line = (
        "<a:p><a:r><a:t>a </a:t></a:r><a:fld><a:t>2026</a:t></a:fld><a:br/>"
        "<a:r><a:t>b</a:t></a:r><a:endParaRPr/></a:p>"
    )
    (section,) = read_pptx(pptx([slide(shape(line, "c"))])).sections
    assert section.text == "a 2026\nb\nc"


def test_a_title_is_named_once() -> None:
    drawn = slide(shape("a", kind="title"), shape("b", kind="title"))
    (section,) = read_pptx(pptx([drawn])).sections
    assert (section.label, section.text) == ("a", "a\n\nb")


def test_a_merged_cell_stands_in_each_of_its_rows() -> None:
    cell = "<a:tc {}><a:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></a:txBody></a:tc>"
    rows = (
        cell.format('rowSpan="2"', "North") + cell.format("", "Ann"),
        cell.format('vMerge="1"', "") + cell.format("", "Ben"),
        cell.format('vMerge="1"', "") + cell.format("", ""),
    )
    table = "".join(f"<a:tr>{row}</a:tr>" for row in rows)
    drawn = f"<p:graphicFrame><a:graphic><a:graphicData><a:tbl>{table}</a:tbl></a:graphicData>"
    (section,) = read_pptx(pptx([slide(drawn + "</a:graphic></p:graphicFrame>")])).sections
    assert section.text == "North | Ann\nNorth | Ben"


def test_a_chart_is_read_as_its_table() -> None:
    drawn = chart("Turnover", ["2024", "2025"], {"North": (0.1, 0.2), "South": (0.3,)})
    parts = {
        "ppt/slides/_rels/slide1.xml.rels": related(("c", "chart", "../charts/chart1.xml")),
        "ppt/charts/chart1.xml": drawn,
    }
    read = read_pptx(pptx([slide(shape("a"), "<p:pic/>")], parts=parts))
    assert [section.text for section in read.sections] == [
        "a\n\nChart: Turnover\n | North | South\n2024 | 10% | 30%\n2025 | 20% | "
    ]
    assert read.left_out == ("Pictures: 1.",)
    unread = '<p:graphicFrame><c:chart xmlns:c="http://x/chart"/></p:graphicFrame>'
    assert read_pptx(pptx([slide(shape("a"), unread)])).left_out == ("Charts: 1.",)


def test_comments_stand_below_a_slide() -> None:
    older = "<p:cm><p:text>Is that so?</p:text></p:cm>"
    line = "<a:p><a:r><a:t>Since </a:t></a:r><a:r><a:t>when?</a:t></a:r></a:p>"
    newer = f"<p:cm><p:txBody>{line}</p:txBody></p:cm>"
    parts = {
        "ppt/slides/_rels/slide1.xml.rels": related(("c", "comments", "../comments/c.xml")),
        "ppt/comments/c.xml": slide(older + newer),
    }
    (section,) = read_pptx(pptx([slide(shape("a"))], parts=parts)).sections
    assert section.text == "a\n\nComment: Is that so?\n\nComment: Since when?"


def test_links_to_elsewhere_are_not_followed() -> None:
    rels = related(("n", "notesSlide", "file:///etc/hostname")).replace(
        "Target=", 'TargetMode="External" Target='
    )
    parts = {"ppt/slides/_rels/slide1.xml.rels": rels}
    (section,) = read_pptx(pptx([slide(shape("a"))], parts=parts)).sections
    assert section.text == "a"


def test_what_is_no_presentation() -> None:
    for data in (
        b"no zip",
        zipped({"ppt/presentation.xml": "<a/>"}),
        pptx([slide()], order=[2]),
        pptx([slide(shape('<a:p><a:pPr lvl="x"/><a:r><a:t>a</a:t></a:r></a:p>'))]),
        pptx([slide("<p:grpSp>" * 5000 + "</p:grpSp>" * 5000)]),
        pptx(["no XML"]),
    ):
        with pytest.raises(Problem):
            read_pptx(data)
