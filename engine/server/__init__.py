"""The local server: HTTP for editors, agents and scripts. Knows no MLX.

It speaks `engine.protocol` with one engine, which runs in a process of its own.
"""
