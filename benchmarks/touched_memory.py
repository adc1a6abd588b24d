"""Makes sure that memory is there before something is measured that needs much of it; the measuring processes call it.

On a virtual machine the host may take free memory away and bring it back page by page: a first touch then costs a
hundred microseconds instead of one, and what is measured is the host.
"""

import mmap
import os


def touch(megabytes: int) -> None:
    """Touch so much memory in a process of its own and give it back to the system, which has it ready then."""
    if not megabytes or not hasattr(os, "fork"):
        return
    child = os.fork()
    if child == 0:
        # The child leaves without any of this process's clean-up.
        try:
            memory = mmap.mmap(-1, megabytes << 20)
            for page in range(0, megabytes << 20, mmap.PAGESIZE):
                memory[page] = 1
        finally:
            os._exit(0)
    os.waitpid(child, 0)
