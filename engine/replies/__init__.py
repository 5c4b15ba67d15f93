"""What is in the text of a reply besides prose: reasoning, and calls of tools.

Each family of models writes them in its own way, which its chat template shows. A syntax here reads
them piece by piece, and says by which grammar they can be enforced. Knows no MLX and no HTTP.
"""
