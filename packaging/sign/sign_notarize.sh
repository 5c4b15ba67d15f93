#!/usr/bin/env bash
# Signs Slipstream.app with a Developer ID, has Apple notarize it, and makes the image and the archive.
# Needs a Mac with Xcode's command-line tools, and the network. It has not been run on a Mac yet.
#
#   packaging/sign/sign_notarize.sh APP IDENTITY PROFILE OUTPUT [KEYCHAIN]
#
#   APP       the bundle as it was assembled; its ad-hoc signatures are replaced
#   IDENTITY  "Developer ID Application: NAME (TEAM)": security find-identity -v -p codesigning
#   PROFILE   what the notary's credentials were stored as: xcrun notarytool store-credentials PROFILE
#   OUTPUT    what to write, without .dmg and .zip
#   KEYCHAIN  the keychain that both are in, where it is not the usual one
set -euo pipefail

if [ $# -lt 4 ] || [ $# -gt 5 ]; then
    sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
app=$1 identity=$2 profile=$3 output=$4
keychain=()
[ $# -eq 5 ] && keychain=(--keychain "$5")
entitlements=$(dirname "$0")/entitlements.plist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# ${a[@]+"${a[@]}"}: the bash that macOS has takes an empty array for an unset one.
sign() { codesign --force --timestamp --sign "$identity" ${keychain[@]+"${keychain[@]}"} "$@"; }
notarize() {
    xcrun notarytool submit "$1" --keychain-profile "$profile" ${keychain[@]+"${keychain[@]}"} --wait |
        tee "$work/notary.txt"
    if ! grep -q 'status: Accepted' "$work/notary.txt"; then
        id=$(awk '$1 == "id:" { print $2; exit }' "$work/notary.txt")
        xcrun notarytool log "$id" --keychain-profile "$profile" ${keychain[@]+"${keychain[@]}"} >&2
        exit 1
    fi
}

# From the inside out: each signature is part of what the next one seals.
find "$app/Contents" -name '*.framework' -prune -o -type f -print0 |
    while IFS= read -r -d '' file; do
        case $file in "$app"/Contents/MacOS/*) continue ;; esac
        if [[ $(file -b "$file") == Mach-O* ]]; then sign --options runtime "$file"; fi
    done
find "$app/Contents" -name '*.framework' -prune -print0 |
    while IFS= read -r -d '' framework; do sign --options runtime "$framework"; done
sign --options runtime --entitlements "$entitlements" \
    --identifier "$(/usr/libexec/PlistBuddy -c 'Print :CFBundleIdentifier' "$app/Contents/Info.plist").python3" \
    "$app/Contents/MacOS/python3"
sign --options runtime --entitlements "$entitlements" "$app"
codesign --verify --strict --deep --verbose=2 "$app"

# The ticket is stapled to the application itself, so that it opens without the network.
ditto -c -k --keepParent "$app" "$work/submitted.zip"
notarize "$work/submitted.zip"
xcrun stapler staple "$app"
spctl --assess --type execute --verbose=2 "$app"

mkdir -p "$(dirname "$output")" "$work/volume"
rm -f "$output.zip" "$output.dmg"
ditto -c -k --keepParent "$app" "$output.zip"
ditto "$app" "$work/volume/$(basename "$app")"
ln -s /Applications "$work/volume/Applications"
hdiutil create -volname Slipstream -srcfolder "$work/volume" -fs HFS+ -format UDZO "$output.dmg"
sign "$output.dmg"
notarize "$output.dmg"
xcrun stapler staple "$output.dmg"
spctl --assess --type open --context context:primary-signature --verbose=2 "$output.dmg"
