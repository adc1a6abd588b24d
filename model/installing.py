"""How Penstock and its extras are installed. No index has it, so a command names where this copy came from.

Every message that tells how to install something of Penstock's is made here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

FROM_A_CHECKOUT = "pip install -e '.[{extra}]' in a checkout of Penstock"
"""What is said where nobody knows where this copy came from."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a copy of Penstock came from: the ``folder`` of a checkout, or the URL of a wheel or of a repository."""

    url: str
    folder: Path | None = None
    editable: bool = False

    @property
    def requirement(self) -> str:
        """A line of a ``requirements.txt``."""
        return f"penstock @ {self.url}"


def install_extra(extra: str) -> str:
    """Return the command that installs an extra for this copy of Penstock."""
    return command(extra, origin())


def command(extra: str, came_from: Origin | None) -> str:
    """Return the command that installs an extra for a copy; None: nobody knows where it came from."""
    if came_from is None:
        return FROM_A_CHECKOUT.format(extra=extra)
    if came_from.folder is not None:
        return f"pip install {'-e ' if came_from.editable else ''}'{came_from.folder}[{extra}]'"
    return f"pip install 'penstock[{extra}] @ {came_from.url}'"


@cache
def origin() -> Origin | None:
    """Return where this copy came from; None: not known."""
    try:
        noted = metadata.distribution("penstock").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        noted = None
    known = None if noted is None else noted_origin(json.loads(noted))
    beside = Path(__file__).resolve().parents[1]
    if known is None and (beside / "setup.cfg").is_file():
        return Origin(beside.as_uri(), beside, editable=True)
    return known


def noted_origin(direct_url: Mapping[str, Any]) -> Origin | None:
    """Return the origin that pip has noted (PEP 610); None if nothing is there any more."""
    url = str(direct_url.get("url", ""))
    version_control = direct_url.get("vcs_info")
    if isinstance(version_control, Mapping):
        return Origin(f"{version_control['vcs']}+{url}@{version_control['commit_id']}")
    if not url.startswith("file:"):
        return Origin(url) if url else None
    path = Path(unquote(urlsplit(url).path))
    if path.is_dir():
        return Origin(url, path, bool(direct_url.get("dir_info", {}).get("editable")))
    return Origin(url) if path.exists() else None
