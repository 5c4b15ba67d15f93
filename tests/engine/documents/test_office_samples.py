"""Twenty files of office programs, books and pages: what is read of each, exactly."""

from pathlib import Path

import pytest

from engine.documents.child import read_bytes
from engine.documents.hidden import without_hidden
from engine.documents.reading import read_document
from tests.support.documents.office_samples import office_samples

SAMPLES = office_samples()


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_read(name: str) -> None:
    sample = SAMPLES[name]
    document = read_bytes(name, sample.data)
    expected = [
        (each.kind, each.number, each.label, without_hidden(each.text)[0])
        for each in sample.read.sections
    ]
    found = [(each.kind, each.number, each.label, each.text) for each in document.sections]
    assert found == expected
    assert document.format == name.rpartition(".")[2]
    assert document.without_text == sample.read.without_text
    assert document.left_out == sample.read.left_out
    assert document.hidden == sample.hidden


@pytest.mark.parametrize(
    "name", ["reviewed.docx", "prices.xlsx", "talk.pptx", "old.epub", "guide.html"]
)
def test_a_process_that_may_do_little_reads_the_same(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(SAMPLES[name].data)
    assert read_document(path) == read_bytes(name, SAMPLES[name].data)
