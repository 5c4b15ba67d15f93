"""Ollama's API: /api/chat, /api/generate, and what is loaded."""
