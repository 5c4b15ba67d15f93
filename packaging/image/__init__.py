"""What is downloaded: the disk image and the .zip of a bundle."""
