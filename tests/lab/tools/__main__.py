"""`python -m tests.lab.tools servers` and `python -m tests.lab.tools faults`."""

import sys

from tests.lab.tools.faults import fault_table
from tests.lab.tools.servers import try_all

TABLES = {"servers": try_all, "faults": fault_table}

if __name__ == "__main__":
    for word in sys.argv[1:] or TABLES:
        print("\n".join(TABLES[word]()))
