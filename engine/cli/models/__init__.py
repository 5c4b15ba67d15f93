"""Models from the command line: `slipstream models`, and converting."""
