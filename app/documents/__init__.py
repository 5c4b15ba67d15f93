"""Documents in the window: attaching files, the chips they are shown as, and their texts."""
