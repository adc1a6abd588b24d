"""The notice on standard error that kernels are being compiled, which keeps a first run silent for a while."""

import os
import sys
import time

from penstock.state.kernels.kernel_cache import KernelCache, is_kept, kernel_folder, mark_used

QUIET = "PENSTOCK_QUIET_KERNELS"
"""An environment variable; any text in it lets kernels be compiled without a word."""


def announce_compilation() -> None:
    """Let the first kernel that this process has to compile be announced; without this nothing is said."""
    mark_used(time.time())
    if not os.environ.get(QUIET) and not KernelCache.compiled:
        KernelCache.compiles = _tell


def compiling_text(folder: object, cached: bool) -> str:
    """Return the notice: compiling takes a while, and whether later runs are spared it."""
    if cached:
        return f"compiling kernels, which later runs find in {folder} (penstock warm compiles all of them)"
    return (
        f"compiling kernels, as every run must: {folder} cannot be written to; set NUMBA_CACHE_DIR to a folder that can"
    )


def _tell() -> None:
    print(compiling_text(kernel_folder(), is_kept()), file=sys.stderr, flush=True)
