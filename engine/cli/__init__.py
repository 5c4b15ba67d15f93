"""The command line, `slipstream`."""
