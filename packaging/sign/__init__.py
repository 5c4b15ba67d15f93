"""Signatures, made and read: of a Mach-O file, of a framework, of a whole bundle. Without a Mac."""
