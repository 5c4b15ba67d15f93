"""The local server in the window: its process, what passes between it and the engine, its panel."""
