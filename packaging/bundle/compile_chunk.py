"""Compiles Python files to .pyc files that are never compared with their source.

The bundle's own version of Python runs this, without the rest of the repository. Arguments: the
folder, and the place that tracebacks show in front of names. Standard input: names in the folder.
"""

import sys
import warnings
from pathlib import Path
from py_compile import PycInvalidationMode, PyCompileError, compile

warnings.simplefilter("ignore")  # of other people's code
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
