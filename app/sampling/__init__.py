"""How answers of a conversation are sampled: the dialog, and presets."""
