from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.engine.connectors.files import chunks as file_chunks
from penstock.engine.connectors.files.chunks import chunks_of, count_lines, first_block, read_chunk
from penstock.engine.connectors.partitions import FilePartition


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=20).map(b"\n".join),
    size=st.integers(14, 40),
    partitions=st.integers(1, 3),
)
def test_every_line_is_in_exactly_one_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, size: int, partitions: int
) -> None:
    monkeypatch.setattr(file_chunks, "CHUNK_BYTES", size)
    path = tmp_path / "a"
    path.write_bytes(content)
    blocks = {}
    for partition in range(partitions):
        for chunk in chunks_of(FilePartition([path], 0, partition, partitions)):
            block, begin, too_long = read_chunk(chunk, 0)
            assert not too_long
            assert chunk.start not in blocks
            blocks[chunk.start] = block
            assert content[begin : begin + len(block)] == block
            assert begin == 0 or not block or content[begin - 1 : begin] == b"\n"
            assert count_lines(path, begin) == content[:begin].count(b"\n")
    assert b"".join(blocks[start] for start in sorted(blocks)) == content


def test_files_take_turns_too(tmp_path: Path) -> None:
    files = []
    for name in "abcd":
        files.append(tmp_path / name)
        files[-1].write_bytes(b"x\n")
    assert [[chunk.path.name for chunk in chunks_of(FilePartition(files, 0, part, 2))] for part in range(2)] == [
        ["a", "c"],
        ["b", "d"],
    ]


def test_the_first_block_is_whole_lines_of_a_file_with_content(tmp_path: Path) -> None:
    empty, long = tmp_path / "a", tmp_path / "b"
    empty.write_bytes(b" \n")
    long.write_bytes((b"x" * 99 + b"\n") * 20_000)
    assert first_block([empty]) is None
    found = first_block([empty, long])
    assert found is not None
    assert found[0] == long
    assert found[1] == (b"x" * 99 + b"\n") * 10_485
