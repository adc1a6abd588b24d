"""A small project to begin with, which ``penstock init`` writes: the files of ``penstock/project`` under a new name."""

import re
from importlib import resources
from pathlib import Path

from penstock.model.errors import UserError
from penstock.model.installation import Origin, origin

_FILES = ("pipeline.py", "test_pipeline.py", "data/orders.csv", "README.md", "requirements.txt")
_PLACEHOLDER = "my-pipeline"
"""What stands in the files for the project's name."""


def write_project(folder: Path) -> list[Path]:
    """Write the files into a folder, which is made if it is not there, and return their paths.

    The project is named after the folder.

    Raises:
        UserError: there is something in the folder, or it is no folder.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; give the name of a new directory")
    if folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"the directory {folder} is not empty; give the name of a new one")
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.resolve().name).strip("-.") or _PLACEHOLDER
    project = resources.files("penstock").joinpath("project")
    paths = []
    for file in _FILES:
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        text = project.joinpath(file).read_text(encoding="utf-8")
        if file == "requirements.txt":
            text = requirements(text, origin())
        path.write_text(text.replace(_PLACEHOLDER, name), encoding="utf-8")
        paths.append(path)
    return paths


def requirements(template: str, came_from: Origin | None) -> str:
    """Return the project's requirements: Penstock from where this copy came, for no index has it.

    A copy of which nobody knows where it came from is asked for in a comment, so that pip can install the rest.
    """
    unknown = "# Penstock is on no package index: write 'penstock @ ' and the URL of its wheel or repository here."
    return template.replace("penstock\n", f"{unknown if came_from is None else came_from.requirement}\n")
