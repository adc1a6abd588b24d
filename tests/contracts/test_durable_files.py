"""Every kind of durable files keeps one contract."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from penstock.model.errors import OptionError
from penstock.state.files.arrow_files import ArrowFiles
from penstock.state.files.durable_files import CHUNK_BYTES
from penstock.state.files.local_files import LocalFiles
from penstock.state.files.simulated_files import SimulatedDisk, SimulatedFiles
from tests.contracts.object_store import ObjectStore


def arrow_in_memory(tmp_path):
    filesystem, _ = fs.FileSystem.from_uri("mock://")
    return ArrowFiles(filesystem, "base", object_store=False)


KINDS = {
    "local": lambda tmp_path: LocalFiles(tmp_path / "new" / "base"),
    "simulated": lambda tmp_path: SimulatedFiles(SimulatedDisk(np.random.default_rng(1))),
    "arrow": lambda tmp_path: ArrowFiles(fs.LocalFileSystem(), str(tmp_path / "base"), object_store=False),
    "arrow, in memory": arrow_in_memory,
    "arrow, object store": lambda tmp_path: ArrowFiles(fs.PyFileSystem(ObjectStore()), "base", object_store=True),
}


@pytest.fixture(params=KINDS)
def files(request, tmp_path):
    return KINDS[request.param](tmp_path)


def test_what_is_written_is_read(files, tmp_path):
    local = tmp_path / "source"
    local.write_bytes(b"from a file")
    with local.open("rb") as open_file:
        contents = {"x": b"", "a/x": b"abc", "a/b/x": local, "a/b/y": iter([b"in ", b"chunks"]), "z": open_file}
        sizes = {path: files.write(path, content) for path, content in contents.items()}
    assert sizes == {"x": 0, "a/x": 3, "a/b/x": 11, "a/b/y": 9, "z": 11}
    expected = {"x": b"", "a/x": b"abc", "a/b/x": b"from a file", "a/b/y": b"in chunks", "z": b"from a file"}
    assert {path: files.read(path) for path in contents} == expected
    assert {path: files.size(path) for path in contents} == sizes
    assert files.fetch("a/b/x", tmp_path / "copy") == 11
    assert (tmp_path / "copy").read_bytes() == b"from a file"
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600


def test_what_is_not_there(files, tmp_path):
    assert not files.exists("a/x")
    assert files.size("a/x") is None
    assert list(files.list("a")) == list(files.folders("a")) == list(files.list("")) == []
    for path in ("x", "a/x"):
        with pytest.raises(FileNotFoundError):
            files.read(path)
        with pytest.raises(FileNotFoundError):
            files.fetch(path, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    files.delete("a/x", "x")
    files.delete_folder("a")
    files.clear_unfinished("a")


def test_a_folder_is_no_file(files):
    files.write("a/x", b"1")
    assert not files.exists("a")
    assert list(files.list("")) == []
    assert list(files.folders("")) == ["a"]


def test_a_file_is_replaced(files):
    files.write("x/y", b"a long first one")
    files.write("x/y", b"second")
    assert files.read("x/y") == b"second"
    assert list(files.list("x")) == ["y"]


def test_lists_are_sorted_and_of_one_folder(files):
    for path in ("a/c", "a/b/d", "a/a", "x"):
        files.write(path, b"1")
    assert list(files.list("a")) == ["a", "c"]
    assert list(files.folders("a")) == ["b"]
    files.delete("a/c", "a/nothing", "x")
    assert list(files.list("a")) == ["a"]
    files.delete_folder("a")
    assert list(files.list("a")) == list(files.list("a/b")) == []
    files.write("a/b/d", b"2")
    assert files.read("a/b/d") == b"2"


def test_several_are_written_together_and_answers_are_in_order(files):
    sizes = files.together([partial(files.write, f"a/{number}", bytes(number)) for number in range(20)])
    assert sizes == list(range(20))
    assert {path: files.size(f"a/{path}") for path in files.list("a")} == {str(number): number for number in range(20)}
    assert files.together([]) == []


def test_of_several_that_are_written_together_one_may_fail(files):
    with pytest.raises(OptionError, match="cannot be the name"):
        files.together([partial(files.write, path, b"1") for path in ("a/x", "../x", "a/y")])
    assert files.read("a/x") == b"1"


def test_large_files_come_in_chunks_and_reads_have_a_limit(files):
    data = np.random.default_rng(0).bytes(2 * CHUNK_BYTES + 7)
    files.write("x", data)
    assert b"".join(files.chunks("x")) == data
    assert max(map(len, files.chunks("x"))) <= CHUNK_BYTES
    assert files.read("x", len(data)) == data
    assert files.read("x", 100) == data[:101]


@pytest.mark.parametrize("path", ["", "/x", "x/", "../x", "a/../x", "a//x", ".x", "a/.", "a\\b", "ä", "x\n", "x" * 201])
def test_paths_do_not_leave_the_base(files, path):
    for act in (lambda: files.write(path, b""), lambda: files.read(path), lambda: files.size(path)):
        with pytest.raises(OptionError, match="cannot be the name of a file"):
            act()
    for act in (lambda: files.delete(path), lambda: files.delete_folder(path)):
        with pytest.raises(OptionError, match="cannot be the name of a file"):
            act()


def test_a_write_that_fails_leaves_nothing_new(files):
    def broken():
        yield b"some"
        raise ValueError("the source broke")

    with pytest.raises(ValueError, match="the source broke"):
        files.write("a/x", broken())
    assert not files.exists("a/x")
    assert list(files.list("a")) == []


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "f/a", "f/g/a"]), st.none() | st.binary(max_size=20)), max_size=12)
)
def test_files_are_a_mapping(kept, steps):
    files, expected = kept, {}
    files.delete("a", "b", "f/a", "f/g/a")
    for path, content in steps:
        if content is None:
            files.delete(path)
            expected.pop(path, None)
        else:
            files.write(path, content)
            expected[path] = content
    assert {path: files.read(path) for path in ("a", "b", "f/a", "f/g/a") if files.exists(path)} == expected
    assert sorted(files.list("")) == sorted(path for path in expected if "/" not in path)


@pytest.fixture(params=("simulated", "arrow, in memory", "arrow, object store"), scope="module")
def kept(request):
    return KINDS[request.param](None)
