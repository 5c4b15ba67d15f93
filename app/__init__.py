"""The window: chat, draft lane and conversations in Qt. Imports engine and models, never MLX."""
