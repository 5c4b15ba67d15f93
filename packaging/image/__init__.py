"""The downloads: the disk image and the .zip of a bundle."""
