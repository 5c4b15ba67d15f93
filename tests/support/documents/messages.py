"""Small messages, and pages that were saved as one file."""

import plistlib
from email.message import EmailMessage


def eml(text, *, page="", attached=None, headers=None):
    """A message with a text, the same as a page, and attachments by their names."""
    message = EmailMessage()
    message["From"] = "Zoë Müller <zoe@example.org>"
    message["To"] = "Ada <ada@example.org>"
    message["Date"] = "Mon, 02 Mar 2026 09:30:00 +0100"
    message["Subject"] = "Größe des Büros"
    for name, value in (headers or {}).items():
        message[name] = value
    message.set_content(text, cte="base64")
    if page:
        message.add_alternative(page, subtype="html", cte="quoted-printable")
    for name, content in (attached or {}).items():
        message.add_attachment(content, maintype="application", subtype="pdf", filename=name)
    return message.as_bytes()


def webarchive(page, *, binary=True, css=""):
    """A page as Safari saves it, with its styles."""
    main = {
        "WebResourceData": page.encode(),
        "WebResourceMIMEType": "text/html",
        "WebResourceTextEncodingName": "UTF-8",
    }
    kind = plistlib.FMT_BINARY if binary else plistlib.FMT_XML
    style = {"WebResourceData": css.encode(), "WebResourceMIMEType": "text/css"}
    return plistlib.dumps({"WebMainResource": main, "WebSubresources": [style]}, fmt=kind)
