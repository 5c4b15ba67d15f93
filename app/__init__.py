"""The window: chat, drafts ahead of the text, conversations. Imports engine and models, no MLX."""
