"""The window's part in holding a target on several Macs: they are named, checked and used."""
