"""The local server: HTTP for editors, agents and scripts. Knows no MLX.

Talks to one engine, in a process of its own, by `engine.process.protocol`.
"""
