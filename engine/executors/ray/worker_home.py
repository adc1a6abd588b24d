"""The home of a task manager on any host: folder, modules and arguments of the user's program, as its head has them.

Where both see the same files they are the head's own. Elsewhere the program is the copy that Ray has brought, in the
working directory of the actor's process.
"""

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.engine.core.failpoint_settings import ONCE, VARIABLE
from penstock.engine.executors.managers.visible_files import visible_files
from penstock.model.errors import UserError
from penstock.model.installation import installed_version

LIBRARIES = ("penstock", "pyarrow")
"""The libraries whose versions must be the head's everywhere."""


@dataclass(frozen=True, slots=True)
class WorkerHome:
    """What task managers take over of the head's process.

    ``files`` names the files that it sees. ``folder`` is its working directory, ``program`` the folder of the user's
    program; ``path`` and ``arguments`` are its `sys.path` and `sys.argv`. ``environment`` are variables that tests set,
    ``versions`` those of Python and of `LIBRARIES`.
    """

    files: str
    folder: str
    program: str
    path: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    versions: Mapping[str, str]

    @property
    def is_shared(self) -> bool:
        """Whether this process sees the same files as the head."""
        return self.files == visible_files()

    def enter(self) -> None:
        """Make this process one that finds the user's modules and files as the head does, and hands the same on."""
        os.environ.update(self.environment)
        sys.argv[:] = self.arguments
        if self.is_shared:
            os.chdir(self.folder)
            sys.path[:] = self.path
        else:
            sys.path[:0] = [item for item in self.path_below(Path.cwd()) if item not in sys.path]

    def path_below(self, copy: Path) -> list[str]:
        """Return where the head's modules are in a copy of the program's folder; those outside it are not there."""
        program = Path(self.program)
        folders = [Path(self.folder, item) for item in self.path]
        return [str(copy / item.relative_to(program)) for item in folders if item.is_relative_to(program)]

    def check(self, host: str) -> None:
        """Check the versions of this process, which is on ``host``.

        Raises:
            UserError: one of them is another than the head's.
        """
        here = versions()
        others = [f"{name} {here[name]} (the head: {version})" for name, version in self.versions.items()
                  if here[name] != version]  # fmt: skip
        if others:
            raise UserError(
                f"the node {host} of the Ray cluster has {', '.join(others)}: install the same versions on all nodes"
            )


def home_here() -> WorkerHome:
    """Return the home of this process, for task managers whose head it is."""
    folder = Path.cwd()
    path = tuple(item for item in sys.path if isinstance(item, str))
    environment = {name: os.environ[name] for name in (VARIABLE, ONCE) if name in os.environ}
    program = str(program_folder() or folder)
    return WorkerHome(visible_files(), str(folder), program, path, tuple(sys.argv), environment, versions())


def program_folder() -> Path | None:
    """Return the folder of the user's program, the first on the path that belongs to no installed Python; None: none.

    Libraries put folders of theirs before that of the script, as Ray does, and a command such as ``penstock`` has its
    own there.
    """
    folders = (Path(item).absolute() for item in sys.path if isinstance(item, str))
    installed = (sys.prefix, sys.base_prefix)
    return next((each for each in folders if not any(each.is_relative_to(prefix) for prefix in installed)), None)


def versions() -> Mapping[str, str]:
    """Return the versions of Python, up to its minor one, and of `LIBRARIES`."""
    libraries = {name: installed_version(name) or "none" for name in LIBRARIES}
    return {"Python": ".".join(platform.python_version_tuple()[:2]), **libraries}
