"""The window, to come: chat, draft lane and library in Qt. Imports engine and models, never MLX."""
