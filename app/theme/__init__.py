"""The appearance: colours, icons, labels and other small widgets."""
