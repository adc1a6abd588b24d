"""A small disk that can be filled, or made read-only, for the trial under a supervisor.

It needs the right to mount, so the trial runs in a mount namespace of its own (`in_own_namespace`): what it mounts
nobody else sees, and it is gone with the process.
"""

import os
import subprocess
import sys
from pathlib import Path

_INSIDE = "PENSTOCK_OWN_NAMESPACE"
SIZE_MB = 64


def in_own_namespace(module: str, arguments: list[str]) -> None:
    """Run ``python -m module`` again in a mount namespace of its own, unless this is that process already."""
    if os.environ.get(_INSIDE) == "1":
        return
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *user, "--mount", sys.executable, "-m", module, *arguments]
    os.execvpe(command[0], command, {**os.environ, _INSIDE: "1"})


class SmallDisk:
    """A file system of 64 MB in memory, mounted at a folder for as long as the block runs."""

    def __init__(self, folder: Path) -> None:
        """Mount nothing yet."""
        self.folder = folder

    def __enter__(self) -> "SmallDisk":
        """Mount it."""
        self.folder.mkdir(parents=True)
        _mount("-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(self.folder))
        return self

    def __exit__(self, *error: object) -> None:
        """Unmount it."""
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    def fill(self) -> None:
        """Leave no room at all."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue

    def clear(self) -> None:
        """Give the room back."""
        self._filler.unlink(missing_ok=True)

    def set_read_only(self, wanted: bool) -> bool:
        """Refuse writes, or allow them again; False: a file is open for writing just now."""
        mode = "ro" if wanted else "rw"
        ran = subprocess.run(
            ["mount", "-o", f"remount,{mode},size={SIZE_MB}m", str(self.folder)], capture_output=True, check=False
        )
        return ran.returncode == 0

    @property
    def _filler(self) -> Path:
        return self.folder / "filler"


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)
