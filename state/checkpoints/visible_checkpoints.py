"""The manifests that count when several runs have written to one folder (docs/decisions/0033-one-run-at-a-time.md).

A manifest's name has its epoch and its run; runs without a lease, and versions before there was one, leave the run out.
A run that begins *seals* the manifests it finds: later ones of earlier runs never count.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from penstock.state.leases.run_records import Seal

_MANIFEST = re.compile(r"([0-9]{10})(?:-([0-9]{10}))?\.json\Z")

_PASSED_OVER = ".passed"
"""Behind the name of a manifest: a file that says that a start has gone back behind its checkpoint."""

LAST_REAL_EPOCH = 4_999_999_999
"""No job comes to a later epoch, with a checkpoint a second for 158 years: a manifest of one is not its own."""


def manifest_name(epoch: int, run: int) -> str:
    """Return the name of a manifest; run 0 is none."""
    return f"{epoch:010d}-{run:010d}.json" if run else f"{epoch:010d}.json"


def mark_of(name: str) -> str:
    """Return the name of the file that says that the checkpoint of a manifest was passed over."""
    return f"{name}{_PASSED_OVER}"


def passed_over(names: Iterable[str]) -> frozenset[str]:
    """Return the names of the manifests, there or not, whose checkpoints were passed over."""
    return frozenset(name.removesuffix(_PASSED_OVER) for name in names if name.endswith(_PASSED_OVER))


def run_of(name: str) -> int:
    """Return the run in the name of a manifest; 0: it has none, or is no manifest's."""
    match = _MANIFEST.match(name)
    return int(match[2] or 0) if match else 0


def visible(names: Iterable[str], seal: Seal | None, taken_over: Collection[str] | None) -> dict[int, str]:
    """Return the manifests that count, by ascending epoch.

    ``taken_over`` are the names that the greatest seal lists. None: the seal is damaged; then the epoch in its name
    bounds what earlier runs have published, and of one epoch the greatest run counts.
    """
    by_epoch: dict[int, tuple[int, str]] = {}
    for name in names:
        match = _MANIFEST.match(name)
        if match is None:
            continue
        epoch, run = int(match[1]), int(match[2] or 0)
        if epoch > LAST_REAL_EPOCH:
            continue
        if seal is not None and run < seal.run:
            counts = epoch <= seal.last_epoch if taken_over is None else name in taken_over
            if not counts:
                continue
        by_epoch[epoch] = max(by_epoch.get(epoch, (run, name)), (run, name))
    return {epoch: by_epoch[epoch][1] for epoch in sorted(by_epoch)}


def fenced(names: Sequence[str], counting: Mapping[int, str], run: int) -> list[str]:
    """Return the manifests of runs before this one that do not count."""
    unfenced = {*counting.values(), *strays(names)}
    matches = [(name, _MANIFEST.match(name)) for name in names]
    return [name for name, match in matches if match and int(match[2] or 0) < run and name not in unfenced]


def strays(names: Sequence[str]) -> list[str]:
    """Return the manifests whose numbers no checkpoint has, which are ignored."""
    matches = [(name, _MANIFEST.match(name)) for name in names]
    return [name for name, match in matches if match and int(match[1]) > LAST_REAL_EPOCH]
