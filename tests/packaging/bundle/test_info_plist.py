"""Info.plist and the icon: what macOS wants to know, and the same every time."""

import io
import plistlib
from dataclasses import replace

from PIL import Image

from bundle.info_plist import info_plist, write_icon
from configuration import read_configuration


def test_it_says_what_the_configuration_says():
    configuration = replace(read_configuration(), version="9.8.7")
    told = plistlib.loads(info_plist(configuration))
    assert told["CFBundleShortVersionString"] == told["CFBundleVersion"] == "9.8.7"
    assert told["CFBundleIdentifier"] == configuration.application.identifier
    assert told["CFBundleExecutable"] == "Slipstream"
    assert told["LSMinimumSystemVersion"] == "14.0"
    assert told["LSArchitecturePriority"] == ["arm64"]
    assert told["NSHighResolutionCapable"] is True
    assert told["NSRequiresAquaSystemAppearance"] is False
    assert told["NSAppSleepDisabled"] is True
    (taken,) = told["CFBundleDocumentTypes"]
    assert "public.folder" in taken["LSItemContentTypes"]
    asked = ("LocalNetwork", "DesktopFolder", "DocumentsFolder", "DownloadsFolder")
    assert all(told[f"NS{place}UsageDescription"] for place in asked)


def test_the_icon_has_all_sizes(tmp_path):
    picture = tmp_path / "drawn.png"
    Image.new("RGB", (64, 64), "teal").save(picture)
    for name in ("one.icns", "two.icns"):
        write_icon(picture, tmp_path / name)
    data = (tmp_path / "one.icns").read_bytes()
    assert data == (tmp_path / "two.icns").read_bytes()
    with Image.open(io.BytesIO(data)) as icon:
        sides = {width * scale for width, _, scale in icon.info["sizes"]}
    assert sides == {32, 64, 128, 256, 512, 1024}
