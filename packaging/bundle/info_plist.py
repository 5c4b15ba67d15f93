"""Writes Info.plist and the icon, which macOS shows of an application before it runs."""

import plistlib
from pathlib import Path

from PIL import Image

from configuration import Configuration

# The reasons that macOS shows when it asks whether the application may read there.
_ATTACHED = "Documents that you attach to a message, and models that you load, are read from here."
_TAKEN = {
    "CFBundleTypeName": "Document",
    "CFBundleTypeRole": "Viewer",
    "LSHandlerRank": "Alternate",
    "LSItemContentTypes": ["public.text", "public.composite-content", "public.folder"],
}
_ICON_SIDES = (1024, 512, 256, 128, 64, 32, 16)  # all that Finder and Dock ask for


def info_plist(configuration: Configuration) -> bytes:
    """The bytes of Info.plist: XML, keys sorted."""
    application, version = configuration.application, configuration.version
    return plistlib.dumps(
        {
            "CFBundleDevelopmentRegion": "en",
            "CFBundleDisplayName": application.name,
            "CFBundleDocumentTypes": [_TAKEN],  # by the icon in the Dock
            "CFBundleExecutable": application.name,
            "CFBundleIconFile": application.name,
            "CFBundleIdentifier": application.identifier,
            "CFBundleInfoDictionaryVersion": "6.0",
            "CFBundleName": application.name,
            "CFBundlePackageType": "APPL",
            "CFBundleShortVersionString": version,
            "CFBundleSupportedPlatforms": ["MacOSX"],
            "CFBundleVersion": version,
            "LSApplicationCategoryType": application.category,
            "LSArchitecturePriority": [application.architecture],
            "LSMinimumSystemVersion": application.minimum_macos,
            "LSRequiresNativeExecution": True,
            "NSAppSleepDisabled": True,  # or App Nap of a covered window would slow its engine too
            "NSDesktopFolderUsageDescription": _ATTACHED,
            "NSDocumentsFolderUsageDescription": _ATTACHED,
            "NSDownloadsFolderUsageDescription": _ATTACHED,
            "NSHighResolutionCapable": True,
            "NSHumanReadableCopyright": application.copyright,
            "NSLocalNetworkUsageDescription": "Several Macs of yours can hold one model together, "
            "and other programs can be answered by the local server.",
            "NSPrincipalClass": "NSApplication",
            "NSRequiresAquaSystemAppearance": False,  # it has a dark look too
            "NSSupportsAutomaticGraphicsSwitching": True,
        }
    )


def write_icon(picture: Path, path: Path) -> None:
    """Write the .icns at `path`, from the picture that the window also uses."""
    with Image.open(picture) as image:
        drawn = image.convert("RGBA")
    sizes = [drawn.resize((side, side), Image.Resampling.LANCZOS) for side in _ICON_SIDES]
    drawn.save(path, format="ICNS", append_images=sizes)
