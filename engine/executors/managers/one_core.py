"""The process of a task manager keeps to one core."""

import os
from typing import Any

_NUMBA_THREADS = "NUMBA_NUM_THREADS"


def hold_libraries_to_one_core() -> None:
    """Let Arrow and numba begin no threads for others; what the user has set for numba stands."""
    chosen = _NUMBA_THREADS in os.environ
    # Numba reads it while it is imported, and only then.
    os.environ.setdefault(_NUMBA_THREADS, "1")
    import numba
    import pyarrow as pa

    pa.set_cpu_count(1)
    if not chosen:
        # Programs that the user's code starts may have all cores.
        del os.environ[_NUMBA_THREADS]
        config: Any = numba.config
        config.reload_config()
        config.NUMBA_NUM_THREADS = 1
