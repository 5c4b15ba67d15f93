"""Messages and saved pages, as people see them."""

from email.message import EmailMessage

from engine.documents.child import read_bytes
from engine.documents.mail import read_mail
from tests.support.documents.messages import eml, webarchive
from tests.support.documents.samples import seen

HEADERS = (
    "From: Zoë Müller <zoe@example.org>\nTo: Ada <ada@example.org>\n"
    "Date: Mon, 02 Mar 2026 09:30:00 +0100\nSubject: Größe des Büros"
)
PAGE = "<style>p {color: red}</style><h1>Plan</h1><table><tr><td>Café<td>3 m²</table>"


def only_text(data):
    (section,) = read_mail(data).sections
    return section.text


def test_a_message_is_who_wrote_what():
    data = eml("Es sind 30 m².\n\n> Wie groß?", attached={"Übersicht.pdf": b"%PDF-", "b.pdf": b""})
    read = read_mail(data)
    assert [(each.label, each.text) for each in read.sections] == [
        ("Größe des Büros", f"{HEADERS}\n\nEs sind 30 m².\n\n> Wie groß?")
    ]
    assert read.left_out == ("Attachments: Übersicht.pdf, b.pdf.",)
    assert only_text(eml("see the page", page=PAGE)) == f"{HEADERS}\n\nPlan\n\nCafé | 3 m²"
    outer, inner = EmailMessage(), EmailMessage()
    inner["Subject"] = "The old offer"
    inner.set_content("secret")
    outer["Subject"] = "Fwd"
    outer.set_content("See below.")
    outer.add_attachment(inner)
    read = read_mail(outer.as_bytes())
    assert seen(read) == (["Subject: Fwd\n\nSee below."], ("Attachments: The old offer.",))


def test_files_of_apples_mail_and_mailboxes():
    data = eml("one")
    apple = f"{len(data)}     \n".encode() + data + b"<?xml version='1.0'?><plist/>"
    assert only_text(apple) == f"{HEADERS}\n\none"
    box = b"From zoe@example.org Mon Mar  2 09:30:00 2026\n" + data + b"\n"
    sections = read_mail(box + box.replace(b"b25lCg==", b"dHdvCg==")).sections
    assert [(each.number, each.text[-3:]) for each in sections] == [(1, "one"), (2, "two")]
    # Lines of text that begin with From begin no message.
    text = b"From: a@b.c\n\nFrom Monday on it is closed.\nFrom 10:00, 28 Nov:\nopen\n\n"
    times = ("10:00:00 2026", "10:00 2026", "10:00:00 +0000 2026")
    for mark in (f"{name} Sat Nov  8 {time}" for name in ("a@b.c", "-") for time in times):
        box = f"From {mark}\n".encode() + text
        both = (box + box).replace(b"From 10", b">From 10")
        for data in (both, both.replace(b"\n", b"\r\n")):
            assert [each.text for each in read_mail(data).sections] == 2 * [text.decode().strip()]


CALENDAR = r"""BEGIN:VCALENDAR
BEGIN:VTIMEZONE
DTSTART:19701025T030000
END:VTIMEZONE
BEGIN:VEVENT
DTSTART;TZID="(UTC+01:00) Bern":20261203T140000
DTEND:20261203T140000Z
SUMMARY;LANGUAGE=de:Tag der
  Arbeit
BEGIN:VALARM
DESCRIPTION:REMINDER
END:VALARM
DESCRIPTION:Keys\, meter\nand more
END:VEVENT
BEGIN:VEVENT
DTSTART;VALUE=DATE:20261204
DTEND;VALUE=DATE:20261206
STATUS:CANCELLED
END:VEVENT
BEGIN:VEVENT
DTSTART;VALUE=DATE:20261204
DTEND;VALUE=DATE:20261204
END:VEVENT
END:VCALENDAR"""
EVENTS = """Event: Tag der Arbeit
Start: 2026-12-03 14:00 ((UTC+01:00) Bern)
End: 2026-12-03 14:00 (UTC)
Notes: Keys, meter
and more

Status: CANCELLED
Start: 2026-12-04
End: 2026-12-05

Start: 2026-12-04
End: 2026-12-04"""


def test_an_invitation_is_shown_beside_its_text():
    message = EmailMessage()
    message.set_content("The lift is broken.")
    for page, shown in (("", "The lift is broken."), ("<p>page", "page")):
        if page:
            message.add_alternative(page, subtype="html")
        message.add_alternative(CALENDAR, subtype="calendar")
        assert only_text(message.as_bytes()).startswith(f"{shown}\n\n{EVENTS}")
    assert only_text(f"Content-Type: text/calendar\n\n{CALENDAR}".encode()) == EVENTS


def test_odd_encodings():
    for kind, body in (
        ("text/plain; charset=no-such\nFrom: <<<", "Größe".encode()),
        ("text/plain", "Größe".encode()),
        ("text/html", "<meta charset=cp1252>Größe".encode("cp1252")),
        ("text/plain; charset=gb2312", "镕€ Gr\u00f6\u00dfe".encode("gb18030")),
    ):
        assert only_text(f"Content-Type: {kind}\n\n".encode() + body).endswith("Größe")
    head = 'Subject: Größe\nContent-Type: multipart/mixed; boundary="b"\n\n--b\n\ntext\n--b\n'
    name = (
        'Content-Disposition: attachment; filename="=?utf-8?q?Gr=C3=B6=C3=9Fe=2Epdf?="\n\n\n--b--'
    )
    for encoding in ("utf-8", "cp1252"):
        read = read_mail((head + name).encode(encoding))
        assert [each.label for each in read.sections] == ["Größe"]
        assert read.left_out == ("Attachments: Größe.pdf.",)


def test_a_message_and_a_saved_page_as_their_readers_see_them():
    page = "<del>900</del> 850 <p style=display:none>no</p>100 \x80 – \xff"
    head = b"Subject: =?gb2312?B?6UY=?= =?iso-8859-1?Q?_100_=80?=\nContent-Type: "
    read = read_mail(
        head + b"text/html; charset=iso-8859-1\n\n" + page.replace("–", "\x96").encode("latin-1")
    )
    text = "Subject: 镕 100 €\n\n~~900~~ 850 100 € – ÿ"
    assert seen(read) == ([text], ("Hidden text: 2 characters.",))
    read = read_mail(head + b"text/plain; charset=utf-8\n\na\xff")
    assert read.left_out == ("1 invalid character of utf-8, shown as \ufffd.",)
    styled = "<link rel=stylesheet href=a.css><p class=x>no</p>yes"
    assert read_bytes("page", webarchive(styled, css=".x{display:none}")).text == "yes"
