"""Finds reasoning and tool calls in the text of a reply, and writes grammars that enforce them.

Each family of models writes them in its own way, which its chat template shows. Replies are read
piece by piece, while they are written. Knows no MLX and no HTTP.
"""
