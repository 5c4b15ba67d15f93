"""What the loaded model's folder tells of its tokens. Knows no MLX and no weights."""

import asyncio
from pathlib import Path

from models.token_tables import read_table


class TargetTokens:
    """The texts of a model's tokens, read when they are first asked for, beside the answers."""

    def __init__(self) -> None:
        self._folder = ""
        self._tokens: frozenset[str] = frozenset()
        self._reading = asyncio.Lock()

    async def of(self, folder: str) -> frozenset[str]:
        """Those of the model in a folder. Raises Problem where they cannot be read."""
        async with self._reading:
            if folder != self._folder:
                table = await asyncio.to_thread(read_table, Path(folder))
                self._folder, self._tokens = folder, frozenset(table.tokens.values())
            return self._tokens
