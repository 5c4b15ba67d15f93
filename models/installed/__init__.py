"""What is on this machine, by which name it goes, and how it is deleted."""
