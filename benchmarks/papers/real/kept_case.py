"""What a kept run was asked for, held against what is asked for now: only a run of the same case is taken for one."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.model.errors import OptionError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FINISHED = "run.json"
"""What a folder has once its run is finished."""

_SHOWN = 3
"""So many differences are named."""


def kept_run(case: "DataclassInstance", folder: Path) -> dict[str, Any] | None:
    """Return what a folder keeps of a finished run of a case, None: it has none.

    Raises:
        OptionError: it has a run of another case.
    """
    finished = folder / FINISHED
    if not finished.exists():
        return None
    plain: dict[str, Any] = json.loads(finished.read_text(encoding="utf-8"))
    refuse_other(plain.get("case", {}), case, folder)
    return plain


def refuse_other(kept: Mapping[str, Any], case: "DataclassInstance", folder: Path) -> None:
    """Refuse a run of another case than the one that is asked for; ``kept``: its case as plain data.

    A field that it does not have was as it is by default.

    Raises:
        OptionError: naming the folder, and what differs.
    """
    asked: dict[str, Any] = json.loads(json.dumps(asdict(case)))
    found = [*_differences("", _defaults(case) | {**kept}, asked)]
    if found:
        more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise OptionError(
            f"{folder} has a run of another case: {', '.join(found[:_SHOWN])}{more}: say another folder, "
            "or delete this one for the run to be made anew"
        )


def _defaults(case: "DataclassInstance") -> dict[str, Any]:
    made = {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(case)
        if field.default is not MISSING or field.default_factory is not MISSING
    }
    plain: dict[str, Any] = json.loads(json.dumps(made))
    return plain


def _differences(path: str, kept: Any, asked: Any) -> Iterator[str]:
    """Yield what differs, by its place."""
    if isinstance(kept, dict) and isinstance(asked, dict):
        for name in dict.fromkeys([*asked, *kept]):
            yield from _differences(f"{path}.{name}" if path else name, kept.get(name), asked.get(name))
    elif kept != asked:
        yield f"{path} was {json.dumps(kept)} and is to be {json.dumps(asked)}"
