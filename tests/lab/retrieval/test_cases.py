"""The answers stand where they are looked for, whatever the readers make of the documents."""

import pytest

from engine.documents.child import read_bytes
from tests.lab.retrieval.__main__ import cases, place

pytestmark = pytest.mark.slow


def test_each_answer_stands_in_its_document_once() -> None:
    all_cases = cases()
    assert [len(case.questions) for case in all_cases] == [10] * 15 + [3] * 7
    for case in all_cases:
        document = read_bytes(case.name, case.data)
        assert case.header in document.text
        for question in case.questions:
            start, end = place(document, question.answer)
            assert 0 <= start < end, question
