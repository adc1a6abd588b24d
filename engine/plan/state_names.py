"""The names of state columns for users: keys by their names, accumulators by those of their aggregates.

Called by `checkpoint.reader`, with what the checkpoint says the state means.
"""

import re
from collections.abc import Sequence

import pyarrow as pa

from penstock.engine.operators.over.rows import KEPT_ROWS
from penstock.state.checkpoints.operator_meaning import OperatorMeaning
from penstock.state.tables.image import table_form

_KEY = re.compile(r"key_(\d+)\Z")
_AGGREGATE = re.compile(r"a(\d+)\.(.+)\Z")
_VALUE = re.compile(r"e(\d+)\Z")

WINDOW_START = "window_start"
"""What a key is called that stands before those of the user's."""


def shown_names(table: str, schema: pa.Schema, meaning: OperatorMeaning | None) -> list[str]:
    """Return what the columns of a dumped table or log are called; one whose name would be taken keeps its own."""
    own = list(schema.names)
    if meaning is None:
        return own
    names: list[str] = []
    for name in own:
        called = _called(name, table, schema, meaning)
        names.append(name if called in names or (called != name and called in own) else called)
    return names


def _called(name: str, table: str, schema: pa.Schema, meaning: OperatorMeaning) -> str:
    if match := _KEY.match(name):
        return _key(int(match[1]), schema, meaning.keys) or name
    if match := _AGGREGATE.match(name):
        place, kept = int(match[1]), match[2]
        owners = [item.name for item in meaning.aggregates if item.table == table and item.place == place]
        return f"{owners[0]}.{kept}" if owners else name
    if table == KEPT_ROWS and (match := _VALUE.match(name)) and int(match[1]) < len(meaning.values):
        return meaning.values[int(match[1])]
    return name


def _key(place: int, schema: pa.Schema, keys: Sequence[str]) -> str | None:
    form = table_form(schema)
    # What follows a log is found by whole rows, and not by the operator's keys.
    if form is None or form.follows is not None or form.keys - form.beside != len(keys):
        return None
    if place < form.beside:
        return WINDOW_START if form.beside == 1 else None
    return keys[place - form.beside]
