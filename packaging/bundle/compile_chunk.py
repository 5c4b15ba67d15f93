"""Compiles Python files to .pyc that are never looked up again in their source.

Run by the bundle's own version of Python, which knows nothing else of this repository: the folder
as its argument, names within it on standard input, the place that tracebacks show in front of them.
"""

import sys
import warnings
from pathlib import Path
from py_compile import PycInvalidationMode, PyCompileError, compile

warnings.simplefilter("ignore")  # what others write
folder = Path(sys.argv[1])
for name in sys.stdin.read().splitlines():
    path = folder / name
    try:
        compile(
            str(path),
            cfile=str(path.parent / "__pycache__" / f"{path.stem}.cpython-313.pyc"),
            dfile=name,
            doraise=True,
            optimize=0,
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        )
    except PyCompileError as error:
        sys.exit(f"{name}: {error.msg}")
