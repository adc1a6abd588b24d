"""Protobuf's formats in another process, with classes of a module and with classes that only this process has."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.timestamp_pb2 import Timestamp

from penstock.engine.connectors.kafka.formats.encoders import sink_format
from penstock.engine.connectors.kafka.formats.protobuf import ProtobufValues
from tests.engine.connectors.kafka.formats.protobuf_classes import add_field, classes

ELSEWHERE = """
import sys, cloudpickle, pyarrow as pa
decoder, format, rows = cloudpickle.loads(sys.stdin.buffer.read())
decoded = decoder.decode(format.make(rows.schema).encode(rows).to_pylist()).rows
sys.stdout.buffer.write(cloudpickle.dumps(decoded))
"""


def _made() -> Any:
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    order = file.message_type.add(name="Order")
    add_field(order, 1, "seconds", "int64")
    add_field(order, 2, "at", ".google.protobuf.Timestamp")
    return classes(file)["shop.Order"]


@pytest.mark.parametrize("kind", [Timestamp, _made()], ids=["of a module", "of this process"])
def test_messages_are_written_and_read_elsewhere(kind: Any) -> None:
    rows = pa.record_batch({"seconds": pa.array([1, 2], pa.int64())})
    format = sink_format("protobuf", message=kind)
    decoder = ProtobufValues(kind).restrict(["seconds"])
    ran = subprocess.run(
        [sys.executable, "-P", "-c", ELSEWHERE],
        input=cloudpickle.dumps((decoder, format, rows)),
        capture_output=True,
        check=False,
        cwd=Path("/"),
    )
    assert ran.returncode == 0, ran.stderr.decode()
    assert cloudpickle.loads(ran.stdout).to_pylist() == rows.to_pylist()
