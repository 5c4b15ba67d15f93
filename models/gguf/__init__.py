"""GGUF files become MLX model folders. `importing.py` is the front door."""
