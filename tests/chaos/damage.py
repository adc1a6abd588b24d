"""Damage to the newest checkpoint of a job that is down (docs/design/fault-tests.md S1, S2)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def damage_newest(checkpoints: Path, rng: np.random.Generator) -> None:
    """Damage the newest checkpoint below a directory: its manifest, or a file that the one before does not have."""
    older, newest = sorted(checkpoints.glob("*/checkpoints/*.json"))[-2:]
    own = sorted(_files(newest) - _files(older))
    base = newest.parents[1] / "files"
    target = newest if not own or rng.random() < 0.3 else base / own[rng.integers(len(own))]
    content = bytearray(target.read_bytes())
    match rng.integers(3):
        case 0:
            target.write_bytes(content[: rng.integers(len(content))])
        case 1:
            content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
            target.write_bytes(content)
        case _ if target != newest:
            target.unlink()
        case _:
            target.write_bytes(b"")


def _files(manifest: Path) -> set[str]:
    """Return the stored names of the files of a checkpoint."""
    content: Mapping[str, Mapping[str, Any]] = json.loads(manifest.read_bytes())
    return {
        f"{file['digest']}-{file['run']:010d}"
        for instance in content["manifest"]["instances"]
        for file in instance["files"]
    }
