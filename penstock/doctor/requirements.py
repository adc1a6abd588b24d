"""Requirements of Penstock: from its installed metadata, or from setup.cfg in a checkout."""

import configparser
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

_REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?$")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_BOUND = re.compile(r"\s*(>=|<=|==|!=|<|>)\s*([0-9][0-9.]*)")
_HOLDS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True, slots=True)
class Requirement:
    """A library with bounds such as ``("<", "31")``; ``extra`` None means it is always needed."""

    library: str
    bounds: tuple[tuple[str, str], ...]
    extra: str | None = None

    @property
    def text(self) -> str:
        """The bounds as they are written."""
        return ",".join(sign + version for sign, version in self.bounds)

    def allows(self, version: str) -> bool:
        """Return whether a version is within the bounds."""
        return all(_HOLDS[sign](*_padded(version, bound)) for sign, bound in self.bounds)


def requirements() -> list[Requirement]:
    """Return what Penstock requires; empty if neither metadata nor setup.cfg can be found."""
    try:
        lines = metadata.requires("penstock") or []
    except metadata.PackageNotFoundError:
        return list(_from_checkout(Path(__file__).resolve().parents[2] / "setup.cfg"))
    return [requirement for line in lines if (requirement := parse(line)) is not None]


def parse(line: str, extra: str | None = None) -> Requirement | None:
    """Read a line of ``install_requires`` or of metadata; None for Penstock's own extras."""
    match = _REQUIREMENT.match(line)
    if match is None or match[1].lower() == "penstock":
        return None
    marker = _EXTRA.search(match[3] or "")
    bounds = tuple((item[1], item[2]) for item in _BOUND.finditer(match[2]))
    return Requirement(match[1], bounds, marker[1] if marker else extra)


def missing_library(error: BaseException) -> str | None:
    """Return which of Penstock's libraries could not be imported, None if that is not the cause."""
    for cause in (error, error.__cause__):
        if isinstance(cause, ImportError) and cause.name:
            root = cause.name.split(".")[0]
            if any(requirement.library == root for requirement in requirements()):
                return root
    return None


def _from_checkout(file: Path) -> Iterator[Requirement]:
    config = configparser.ConfigParser(interpolation=None)
    config.read(file, encoding="utf-8")
    groups: list[tuple[str | None, str]] = [(None, config.get("options", "install_requires", fallback=""))]
    if config.has_section("options.extras_require"):
        groups += config.items("options.extras_require")
    for extra, lines in groups:
        for line in lines.strip().splitlines():
            requirement = parse(line, extra)
            if requirement is not None:
                yield requirement


def _padded(*versions: str) -> list[tuple[int, ...]]:
    """Return the numbers of versions, as many of each: 3.1 is 3.1.0."""
    numbers = [_numbers(version) for version in versions]
    width = max(map(len, numbers))
    return [(*parts, *(0,) * (width - len(parts))) for parts in numbers]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0].split("rc")[0]))
