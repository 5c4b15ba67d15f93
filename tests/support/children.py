"""The processes that a test began, told from others that a worker of the suite has."""

from contextlib import suppress

import psutil


def children_with(argument):
    """The processes below this one whose command line has `argument`, oldest first.

    A process that ended counts until its parent has waited for it, whatever it was: it has no
    command line any more."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.status() == psutil.STATUS_ZOMBIE or argument in child.cmdline():
                found.append(child)
    return found
