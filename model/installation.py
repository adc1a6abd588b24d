"""Commands that install Penstock and its extras, which are on no index, from the origin of this copy.

Every message with an install command takes it from here.
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
"""The command where the origin is unknown."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a copy of Penstock: the ``folder`` of a checkout, or the URL of a wheel or of a repository."""

    url: str
    folder: Path | None = None
    editable: bool = False

    @property
    def requirement(self) -> str:
        """A line of a ``requirements.txt``."""
        return f"penstock @ {self.url}"


def installed_version(library: str) -> str | None:
    """Return a library's version, None if it is not installed."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def extra_install_command(extra: str) -> str:
    """Return the command that installs an extra for this copy of Penstock."""
    return install_command(extra, origin())


def install_command(extra: str, origin: Origin | None) -> str:
    """Return the command that installs an extra for a copy with this origin; None: unknown."""
    if origin is None:
        return FROM_A_CHECKOUT.format(extra=extra)
    if origin.folder is not None:
        return f"pip install {'-e ' if origin.editable else ''}'{origin.folder}[{extra}]'"
    return f"pip install 'penstock[{extra}] @ {origin.url}'"


@cache
def origin() -> Origin | None:
    """Return the origin of this copy; None: unknown."""
    try:
        direct_url = metadata.distribution("penstock").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        direct_url = None
    recorded = None if direct_url is None else recorded_origin(json.loads(direct_url))
    checkout = Path(__file__).resolve().parents[1]
    if recorded is None and (checkout / "setup.cfg").is_file():
        return Origin(checkout.as_uri(), checkout, editable=True)
    return recorded


def recorded_origin(direct_url: Mapping[str, Any]) -> Origin | None:
    """Return the origin recorded by pip (PEP 610); None if it no longer exists."""
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
