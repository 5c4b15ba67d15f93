"""Info.plist: what macOS wants to know of an application before it runs it."""

import plistlib

from configuration import Configuration


def information(configuration: Configuration) -> bytes:
    """The file's bytes: XML, keys sorted."""
    application, version = configuration.application, configuration.version
    return plistlib.dumps(
        {
            "CFBundleDevelopmentRegion": "en",
            "CFBundleDisplayName": application.name,
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
            "NSHighResolutionCapable": True,
            "NSHumanReadableCopyright": application.copyright,
            "NSPrincipalClass": "NSApplication",
            "NSRequiresAquaSystemAppearance": False,  # it has a dark look too
            "NSSupportsAutomaticGraphicsSwitching": True,
        }
    )
