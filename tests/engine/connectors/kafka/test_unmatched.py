"""A schema that matches nothing is noticed at the first messages, also where every field may be null."""

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest

from penstock.engine.connectors.kafka.formats.json import JsonValues

SCHEMA = pa.schema({"id": pa.int64(), "shop": pa.string()})
OTHER = json.dumps({"ID": 1, "Shop": "north"}).encode()
SAID = (
    "none of the first 1,000 messages has a field 'id' or 'shop', so the columns are null; "
    "messages have fields 'ID', 'Shop'"
)


def remarks(decoder: JsonValues, *batches: Sequence[bytes]) -> list[str | None]:
    found = []
    for batch in batches:
        decoder.decode(batch)
        found.append(decoder.remark(last=False))
    return found


@pytest.mark.parametrize("columns", [None, ["shop"], []])
def test_it_is_said_once_after_a_thousand_messages(columns: list[str] | None) -> None:
    decoder = JsonValues(SCHEMA) if columns is None else JsonValues(SCHEMA).restrict(columns)
    assert remarks(decoder, [OTHER] * 999, [OTHER] * 5, [OTHER] * 2_000) == [None, SAID, None]
    assert remarks(decoder.fresh(), [OTHER] * 3_000) == [SAID]


def test_it_is_said_at_the_end_of_fewer_messages() -> None:
    decoder = JsonValues(SCHEMA)
    assert remarks(decoder, [OTHER] * 3, [b"{"]) == [None, None]
    said = decoder.remark(last=True)
    assert said is not None and said.startswith("none of the first 3 messages has a field 'id' or 'shop'")


@pytest.mark.parametrize("one", [b'{"id": null}', b'{"id": 1}', b'{"shop": "x", "more": 1}'])
def test_one_message_that_has_a_field_settles_it(one: bytes) -> None:
    decoder = JsonValues(SCHEMA).restrict(["shop"])
    assert remarks(decoder, [OTHER] * 500, [one], [OTHER] * 2_000) == [None, None, None]
    assert decoder.remark(last=True) is None


def test_no_message_is_no_reason() -> None:
    assert JsonValues(SCHEMA).remark(last=True) is None
