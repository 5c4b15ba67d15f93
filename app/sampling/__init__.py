"""How an answer is drawn, in a conversation: the dialog, and presets."""
