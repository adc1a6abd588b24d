"""Fields that JSON must have, and those that it may not: the same messages are bad whoever decodes them, on any way."""

import dataclasses
import json
import pickle
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from penstock.engine.connectors.kafka.formats.decoders import decoder
from penstock.engine.connectors.kafka.formats.json import JsonValues
from penstock.engine.connectors.text.json_decode import JsonDecoder
from penstock.engine.connectors.text.json_lines import JsonLinesSource
from penstock.model.errors import OptionError
from penstock.model.schema import FieldPath, required_paths, to_arrow_schema
from tests.engine.connectors.reading import read_all


@dataclasses.dataclass
class Item:
    price: float
    note: str | None


@dataclasses.dataclass
class Order:
    id: int
    shop: str | None
    item: Item
    gift: Item | None
    parts: list[Item]
    codes: list[int] | None


SCHEMA, REQUIRED = to_arrow_schema(Order), required_paths(Order)
GOOD: dict[str, Any] = {
    "id": 1,
    "shop": "north",
    "item": {"price": 1.5, "note": "n"},
    "gift": {"price": 2.5, "note": None},
    "parts": [{"price": 1.0, "note": "x"}, {"price": 2.0}],
    "codes": [1, 2],
}


def changed(**fields: Any) -> bytes:
    return json.dumps({name: value for name, value in (GOOD | fields).items() if value != "gone"}).encode()


def bad_fields(decoder: JsonValues, messages: Sequence[bytes]) -> dict[int, str]:
    decoded = decoder.decode(messages)
    assert sorted([*decoded.row_of.tolist(), *(index for index, _ in decoded.errors)]) == list(range(len(messages)))
    return dict(decoded.errors)


def test_annotations_say_what_is_required() -> None:
    expected: set[FieldPath] = {
        ("id",),
        ("item",),
        ("item", "price"),
        ("gift", "price"),
        ("parts",),
        ("parts", ""),
        ("parts", "", "price"),
        ("codes", ""),
    }
    assert required_paths(Order) == expected
    assert required_paths({"a": int, "b": int | None, "c": "int64", "d": pa.int64(), "e": Item}) == {
        ("a",),
        ("e",),
        ("e", "price"),
    }


def test_arrow_fields_are_required_if_they_are_not_nullable() -> None:
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("y", pa.int64())])
    fields = [pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.list_(inner)), pa.field("c", pa.int64())]
    assert required_paths(pa.schema(fields)) == {("a",), ("b", "", "x")}


CASES: Sequence[tuple[bytes, str | None]] = (
    (changed(), None),
    (changed(shop="gone", gift="gone", codes="gone"), None),
    (changed(shop=None, gift=None, codes=None), None),
    (changed(parts=[], codes=[]), None),
    (changed(id="gone"), "id"),
    (changed(id=None), "id"),
    (changed(item="gone"), "item"),
    (changed(item={}), "item.price"),
    (changed(gift={"note": "n"}), "gift.price"),
    (changed(parts=[{"price": 1.0}, {"note": "n"}]), "parts[].price"),
    (changed(parts=[None]), "parts[]"),
    (changed(codes=[1, None]), "codes[]"),
    (b"{}", "id"),
)


@pytest.mark.parametrize("around", [0, 1, 200])
def test_a_message_without_a_required_field_is_bad_and_names_it(around: int) -> None:
    for message, field in CASES:
        errors = bad_fields(JsonValues(SCHEMA, REQUIRED), [*[changed()] * around, message, *[changed()] * around])
        if field is None:
            assert errors == {}
        else:
            [(index, reason)] = errors.items()
            assert index == around
            assert reason.startswith(f"field {field!r} is missing or null, and the schema requires it; ")


def test_the_error_says_which_fields_there_are() -> None:
    [(_, reason)] = JsonValues(SCHEMA, REQUIRED).decode([b'{"ID": 1, "Shop": "north"}']).errors
    assert reason.endswith("; of the fields there are ID, Shop")


def test_strict_messages_have_no_other_field() -> None:
    inner = changed(item={"price": 1.0, "nota": "n"})
    messages = [changed(), changed(extra=1), changed(), inner]
    assert set(bad_fields(JsonValues(SCHEMA, strict=True), messages)) == {1, 3}
    assert bad_fields(JsonValues(SCHEMA), messages) == {}
    with pytest.raises(OptionError, match="strict= is for format='json'"):
        decoder("arrow", SCHEMA, strict=True)


def test_what_nothing_reads_is_not_looked_at_unless_it_is_strict() -> None:
    messages = [changed(id="gone"), changed(shop=5), changed(extra=1), changed()]
    lenient = JsonValues(SCHEMA, REQUIRED).restrict(["item"])
    assert bad_fields(lenient, messages) == {}
    assert bad_fields(JsonValues(SCHEMA, REQUIRED).restrict([]), messages) == {}
    strict = JsonValues(SCHEMA, REQUIRED, strict=True).restrict(["item"])
    assert set(bad_fields(strict, messages)) == {0, 1, 2}
    assert strict.decode([changed()]).rows.schema.names == ["item"]
    assert set(bad_fields(strict.fresh(), messages)) == {0, 1, 2}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("columns", [None, ["item"], []])
def test_a_replay_refuses_the_same_messages(strict: bool, columns: list[str] | None) -> None:
    known = JsonValues(SCHEMA, REQUIRED, strict=strict)
    known = known if columns is None else known.restrict(columns)
    messages = [message for message, _ in CASES] + [changed(extra=1), changed(shop=5), b"{"]
    travelled = pickle.loads(pickle.dumps(known))
    assert bad_fields(travelled, messages) == bad_fields(known, messages)
    assert travelled.decode(messages).rows.equals(known.decode(messages).rows)


def mutated(rng: random.Random) -> bytes:
    """Write a message with fields taken out, made null, of another type or added, anywhere; or with broken bytes."""
    message: dict[str, Any] = json.loads(json.dumps(GOOD))
    for _ in range(rng.choice([0, 0, 1, 1, 2, 4])):
        parts = message.get("parts")
        inside = parts if isinstance(parts, list) else []
        place = rng.choice([message, message, message.get("item"), message.get("gift"), *inside])
        if not isinstance(place, dict) or not place:
            continue
        name = rng.choice(list(place))
        match rng.randrange(6):
            case 0:
                del place[name]
            case 1:
                place[name] = None
            case 2:
                place[name] = rng.choice([5, "x", [], {}, [None], True, 1.5, -0.0])
            case 3:
                place[rng.choice(["extra", "Id", "price", "nan"])] = rng.choice([1, "NaN", [1, {"a": None}]])
            case 4:
                place[name] = rng.choice([float("nan"), float("inf"), -float("inf"), [float("nan")]])
            case _:
                place["more"] = ": NaN, Infinity"
    data = bytearray(json.dumps(message, indent=rng.choice([None, None, None, 1])).encode())
    if rng.random() < 0.1:
        at = rng.randrange(len(data))
        data[at : at + rng.randrange(1, 4)] = rng.choice([b"", b"NaN", b"}", b"\n"])
    return bytes(data)


def is_object(message: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(message), dict)
    except ValueError:
        return False


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("columns", [None, ["id", "gift"]])
def test_every_way_of_decoding_agrees(strict: bool, columns: list[str] | None) -> None:
    """Shapes, blocks of pyarrow, single messages and the exact reader: rows and errors are the same."""
    rng = random.Random(7)
    messages = [mutated(rng) if rng.random() < 0.5 else changed(id=number) for number in range(6_000)]

    def made(*, shapes: bool) -> JsonValues:
        known = JsonValues(SCHEMA, REQUIRED, strict=strict)
        known = known if columns is None else known.restrict(columns)
        if not shapes:
            known._shaped = None
        return known

    shaped, general, alone, exact = made(shapes=True), made(shapes=False), made(shapes=False), made(shapes=False)
    blocks = shaped.decode(messages)
    assert 0 < len(blocks.errors) < len(messages)
    expected = general.decode(messages)
    assert blocks.row_of.tolist() == expected.row_of.tolist()
    assert repr(blocks.rows.to_pylist()) == repr(expected.rows.to_pylist())
    assert list(blocks.errors) == list(expected.errors)
    rows = dict(zip(blocks.row_of.tolist(), blocks.rows.to_pylist(), strict=True))
    for index, message in enumerate(messages):
        if index in rows:
            assert is_object(message), message
        if rng.random() < 0.2:
            one, each = alone.decode([message]), exact._each([message], 0)
            assert (one.rows.num_rows == 1) == (index in rows), message
            if index in rows:
                assert repr(one.rows.to_pylist()) == repr([rows[index]])
                assert repr(each.rows.select(one.rows.schema.names).to_pylist()) == repr([rows[index]])


@pytest.mark.parametrize("strict", [False, True])
def test_lines_of_a_file_are_judged_as_messages_are(tmp_path: Path, strict: bool) -> None:
    rng = random.Random(3)
    messages = [mutated(rng).replace(b"\n", b" ") for _ in range(2_000)]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(messages))
    got = read_all(JsonLinesSource(tmp_path / "in.jsonl", SCHEMA, REQUIRED, strict=strict))
    expected = JsonValues(SCHEMA, REQUIRED, strict=strict).decode(messages)
    assert repr(got.rows) == repr(expected.rows.to_pylist())
    assert [record.raw for record in got.rejected] == [messages[index] for index, _ in expected.errors]
    assert [record.error for record in got.rejected] == [reason for _, reason in expected.errors]


def test_a_block_of_lines_in_which_one_lacks_a_field_is_decoded_line_by_line() -> None:
    lines = JsonDecoder(SCHEMA, REQUIRED)
    assert lines.decode_block(changed() + b"\n" + changed(id="gone") + b"\n") is None
    rows, errors = lines.decode_each([changed(), changed(id="gone")])
    assert rows.num_rows == 1 and [index for index, _ in errors] == [1]
