"""What kind of file it is, whatever it is called."""

import plistlib
import zipfile
from io import BytesIO

import pytest

from engine.documents.kinds import kind_of
from models.errors import Problem
from tests.support.documents.messages import eml, webarchive
from tests.support.documents.pdfs import pdf

NOTEBOOK = b'{"cells": [], "nbformat": 4}'


def zipped(*names):
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), b"x")  # of the same date always
    return made.getvalue()


def test_the_kind():
    for name, data, kind in (
        ("a.pdf", pdf(""), "pdf"),
        ("a.txt", pdf(""), "pdf"),
        ("a.pdf", b"\n\nmade by a printer\n" + pdf(""), "pdf"),
        ("notes.txt", b"A file begins with %PDF- where it is one.", "text"),
        ("a.bin", zipped("[Content_Types].xml", "word/document.xml"), "docx"),
        ("a.docx", zipped("[Content_Types].xml", "xl/workbook.xml"), "xlsx"),
        ("a", zipped("[Content_Types].xml", "ppt/presentation.xml"), "pptx"),
        ("a", zipped("mimetype", "META-INF/container.xml"), "epub"),
        ("a.txt", b"\xef\xbb\xbf \n<!DOCTYPE html><p>x", "html"),
        ("a", b"<HTML><body>x", "html"),
        ("a", b'<?xml version="1.0"?>\n<html xmlns="x">', "html"),
        ("a.htm", b"<p>x", "html"),
        ("a.svg", b'<?xml version="1.0"?>\n<svg>', "text"),
        ("a.ipynb", b"{}", "notebook"),
        ("a.json", NOTEBOOK, "notebook"),
        ("a.json", b'{"cells": []}', "text"),
        ("a.MD", b"# A", "markdown"),
        ("a.csv", b"a,b", "csv"),
        ("a.tsv", b"a\tb", "csv"),
        ("a.xls", b"<table><tr><td>x", "html"),
        ("a.xls", b"a\tb", "csv"),
        ("a.py", b"import os", "text"),
        ("Makefile", b"all:", "text"),
        ("a.txt", b"BMW builds cars, ID3 is one of Volkswagen's.", "text"),
        ("a.txt", b"BZhang wrote this, and FORM follows function.", "text"),
        ("a.gif", b"GIF89a is only a text here.", "text"),
        ("a.eml", b"Subject: x\n\ny", "eml"),
        ("a.emlx", b"12\nSubject: x\n", "eml"),
        ("a", eml("x"), "eml"),
        ("a.txt", b"From: Ada\nTo: Ben\nSubject: no mail program wrote this\n\nHello", "text"),
        ("a", webarchive("<p>x"), "webarchive"),
        ("a", webarchive("<p>x", binary=False), "webarchive"),
        ("a.plist", plistlib.dumps({"a": 1}), "text"),
    ):
        assert kind_of(name, data) == kind


def test_what_cannot_be_read_is_named():
    for data, said in (
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "picture"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "picture"),
        (b"GIF89a\1\0\1\0", "picture"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "picture"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "picture"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "Audio"),
        (b"ID3\4\0\0\0\0\0\0", "Audio"),
        (b"\0\0\0\x18ftypM4A \0\0\0\0", "Audio"),
        (b"\x1a\x45\xdf\xa3\x01\0", "video"),
        (b"\x1f\x8b\x08\0\0", "Archives"),
        (b"7z\xbc\xaf\x27\x1c\0", "Archives"),
        (b"a.txt".ljust(257, b"\0") + b"ustar", "Archives"),
        (zipped("a.txt"), "Archives"),
        (zipped("mimetype", "content.xml"), "OpenDocument"),
        (zipped("Index/Document.iwa"), "Pages"),
        (zipped("index.xml", "buildVersionHistory.plist"), "Pages"),
        (zipped("index.apxl"), "Keynote"),
        (zipped("[Content_Types].xml", "xl/workbook.bin"), "XLSB"),
        (zipped("[Content_Types].xml", "visio/document.xml"), "Visio"),
        (zipped("a.txt")[:40], "damaged"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "Old Office"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "password"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "__substg1.0_".encode("utf-16-le"), "Outlook"),
        (eml("x", headers={"Snapshot-Content-Location": "https://example.org/"}), "MHTML"),
        (b"{\\rtf1 Hello}", "RTF"),
        (b'<?xml?><Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet">', "Excel 2003"),
    ):
        with pytest.raises(Problem, match=said) as caught:
            kind_of("a.txt", data)
        assert caught.value.remedy
        assert (".jpg" in caught.value.remedy) == (said == "picture"), "a window needs the ending"
    with pytest.raises(Problem, match="MHTML"):
        kind_of("a.mht", b"<p>x")
