"""Manifests as bytes: equal ones are equal, changed ones are refused before they are parsed."""

import hashlib
import math
import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import BugError, CheckpointError
from penstock.state.checkpoints.manifest import (
    FileEntry,
    InstanceEntry,
    SinkEntry,
    SourceEntry,
    decode_manifest,
    encode_manifest,
    pack_notes,
)
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.files.local_files import LocalFiles
from tests.state.checkpoints.checkpoint_support import manifest_of

NOTES = st.dictionaries(
    st.text(max_size=5),
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text() | st.binary(),
)


def sealed(body):
    """Return a manifest file around any bytes, with the right digest."""
    return b'{"digest":"%s","manifest":%s}' % (hashlib.blake2b(body, digest_size=32).hexdigest().encode(), body)


def test_a_manifest_comes_back():
    entry = FileEntry(name="x.sst", digest="0" * 64, bytes=3)
    manifest = manifest_of(7, [entry])
    data = encode_manifest(manifest)
    assert decode_manifest(data) == manifest
    assert msgspec.json.decode(data)["manifest"]["epoch"] == 7
    assert manifest.files() == {entry.digest: entry}


def test_measured_cpu_comes_back_and_older_manifests_have_none():
    manifest = manifest_of(7, measured_cpu={"read -> map": 12.5})
    assert decode_manifest(encode_manifest(manifest)).measured_cpu == {"read -> map": 12.5}
    plain = msgspec.to_builtins(manifest_of(7))
    del plain["measured_cpu"]
    for older in (1, 2):
        assert decode_manifest(sealed(msgspec.json.encode({**plain, "format": older}))).measured_cpu == {}
    for impossible in (math.nan, math.inf, -1.0):
        with pytest.raises(BugError):
            encode_manifest(manifest_of(7, measured_cpu={"read": impossible}))


def test_the_order_of_mappings_does_not_matter():
    one, other = manifest_of(1, ledger={"a": 1, "b": 2}), manifest_of(1, ledger={"b": 2, "a": 1})
    assert encode_manifest(one) == encode_manifest(other)


@given(NOTES)
def test_notes_come_back(notes):
    entry = InstanceEntry(operator="o", instance=0, notes=pack_notes(notes))
    (back,) = decode_manifest(encode_manifest(manifest_of(1, instances=(entry,)))).instances
    found = back.unpacked_notes()
    assert found.keys() == notes.keys()
    for name, value in notes.items():
        assert type(found[name]) is type(value)
        assert found[name] == value or (math.isnan(value) and math.isnan(found[name]))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"x", {1: 2}, {"a": [{"b": b"x"}]}, object()])
def test_what_json_would_lose_is_refused(value):
    for others in (
        {"ledger": {"x": value}},
        {"sources": (SourceEntry(operator="o", positions={"p": value}),)},
        {"sinks": (SinkEntry(operator="o", receipts=(value,)),)},
    ):
        with pytest.raises(BugError, match=r"the ledger|the position of source 'o'|a receipt of sink 'o'"):
            encode_manifest(manifest_of(1, **others))


@pytest.mark.parametrize(
    "entry",
    [("../x", "0" * 64, 1), ("x", "0" * 63, 1), ("x", "0" * 64 + "\n", 1), ("x", "G" * 64, 1), ("x", "0" * 64, -1)],
)
def test_fields_out_of_range_are_neither_written_nor_read(entry):
    name, digest, length = entry
    manifest = manifest_of(1, [FileEntry(name=name, digest=digest, bytes=length)])
    with pytest.raises(BugError, match="could not be read back"):
        encode_manifest(manifest)
    with pytest.raises(CheckpointError, match="not one of a checkpoint"):
        decode_manifest(sealed(msgspec.json.encode(manifest)))


class Bomb:
    exploded = False

    def __reduce__(self):
        return (setattr, (Bomb, "exploded", True))


def crafted():
    payload = pickle.dumps(Bomb())
    plain = msgspec.json.encode(manifest_of(1))
    return [
        payload,
        b"",
        sealed(payload),
        sealed(b"[" * 100_000),
        sealed(b"{}"),
        sealed(b'{"format":1}'),
        sealed(b"\xff"),
        sealed(b"null"),
        sealed(plain[:-1] + b',"extra":1}'),
        sealed(plain.replace(b'"epoch":1', b'"epoch":"!!python/object/apply:os.system"')),
        sealed(plain.replace(b'"epoch":1', b'"epoch":10000000000')),
        sealed(plain)[:-1],
        sealed(plain) + b"\n",
        b" " + sealed(plain),
    ]


@pytest.mark.parametrize("number", range(len(crafted())))
def test_crafted_bytes_are_refused(tmp_path, number):
    files = LocalFiles(tmp_path)
    files.write("checkpoints/0000000001.json", crafted()[number])
    with pytest.raises(CheckpointError, match="the manifest is"):
        CheckpointRepository(files).load(1)
    assert not Bomb.exploded


def test_another_format_says_so():
    body = msgspec.json.encode(manifest_of(1, format=5))
    with pytest.raises(CheckpointError, match="has format 5 and this version of Penstock reads formats up to 4"):
        decode_manifest(sealed(body))
