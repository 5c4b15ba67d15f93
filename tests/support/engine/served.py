"""`slipstream serve` as a process."""

import asyncio
import sys
from contextlib import asynccontextmanager


@asynccontextmanager
async def served(*arguments):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "engine", "serve", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]  # with the pipes no one has read
