"""The window's part in holding a target on several Macs: they are chosen, checked, set up, used."""
