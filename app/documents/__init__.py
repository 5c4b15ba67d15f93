"""Documents in the window: attached, shown as chips, sent, and marked in answers."""
