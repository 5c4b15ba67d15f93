"""Makes the downloads of a bundle: the disk image and the .zip."""
