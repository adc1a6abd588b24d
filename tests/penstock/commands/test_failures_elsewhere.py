"""What is said of an error that another process raised: what is said of one that was raised here, and where it was."""

import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from penstock.commands.failures import describe_failure
from penstock.engine.executors.managers.failures import error_of, failure_of
from penstock.engine.jobs.restart_policy import is_retryable
from penstock.model import errors
from penstock.model.error_origins import UserFrame, error_name
from penstock.model.errors import BugError, RetryableError, UserError
from tests.penstock.commands.raising import PLACE, raised_elsewhere, raised_here

HELPERS = """
    def read(rows):
        return rows["price"]
"""

FILE = """
    import json
    from pathlib import Path

    import pyarrow as pa

    import penstock as ps
    from helpers_of_the_user import read
    from penstock.model.errors import BugError, FatalError, RetryableError, UserError


    class OddError(ValueError):
        def __init__(self, one, two):
            super().__init__(f"{one} and {two} do not go together")


    class MissingError(KeyError):
        pass


    class WrongError(UserError):
        pass


    class AwayError(RetryableError):
        pass


    class MixedError(ValueError, RetryableError):
        pass


    def run(directory, function, **options):
        job = ps.Job()
        stream = ps.read_memory([{"text": text} for text in ("1", "x", "y")], schema={"text": "string"}, job=job)
        function(stream)
        job.run("failing", directory=directory / "job", **options)


    def raising(make):
        def look(rows):
            if rows.num_rows:
                raise make()

        return lambda stream: stream.for_each_batch(look)


    def value_error(directory):
        run(directory, raising(lambda: ValueError("a price is negative")))


    def no_message(directory):
        run(directory, raising(ValueError))


    def two_lines(directory):
        run(directory, raising(lambda: RuntimeError("one\\ntwo")))


    def own_class(directory):
        run(directory, raising(lambda: OddError(1, 2)))


    def own_key_error(directory):
        run(directory, raising(lambda: MissingError("price")))


    def own_user_error(directory):
        run(directory, raising(lambda: WrongError("a price is negative")))


    def own_retryable(directory):
        run(directory, raising(lambda: AwayError("the shop is closed")))


    def own_mixed(directory):
        run(directory, raising(lambda: MixedError("the shop is closed")))


    def key_error(directory):
        run(directory, lambda stream: stream.for_each_batch(lambda rows: {}["price"]))


    def number_as_key(directory):
        run(directory, lambda stream: stream.for_each_batch(lambda rows: {}[5]))


    def in_another_file(directory):
        run(directory, lambda stream: stream.for_each_batch(read))


    def no_such_file(directory):
        run(directory, lambda stream: stream.for_each_batch(lambda rows: Path("/no/such/file").read_text()))


    def undecodable(directory):
        run(directory, lambda stream: stream.for_each_batch(lambda rows: b"\\xff".decode()))


    def of_the_standard_library(directory):
        run(directory, lambda stream: stream.for_each_batch(lambda rows: json.loads("no")))


    def of_a_library(directory):
        run(directory, lambda stream: stream.for_each_batch(lambda rows: pa.array(["x"]).cast(pa.int64())))


    def invalid_code(directory):
        run(directory, lambda stream: stream.for_each_batch(lambda rows: exec("1 +")))


    def deep(directory):
        def down(number):
            return down(number - 1) if number else 1 / 0

        run(directory, lambda stream: stream.for_each_batch(lambda rows: down(30)))


    def caused(directory):
        def look(rows):
            try:
                read({"cost": 1})
            except KeyError as error:
                raise OddError(3, 4) from error

        run(directory, lambda stream: stream.for_each_batch(look))


    def noted(directory):
        def make():
            error = ValueError("a price is negative")
            error.add_note("Of the shop in Graz.")
            return error

        run(directory, raising(make))


    def retryable(directory):
        run(directory, raising(lambda: RetryableError("the shop is closed")))


    def fatal(directory):
        run(directory, raising(lambda: FatalError("the shop is gone")))


    def bug(directory):
        run(directory, raising(lambda: BugError("an invariant broke")))


    def parse(row):
        return {"number": int(row["text"])}


    def bad_record(directory):
        run(directory, lambda stream: stream.map(parse, schema={"number": "int64"}, on_error="fail").collect())


    def too_many_bad_records(directory):
        run(directory, lambda stream: stream.map(parse, schema={"number": "int64"}).collect(), max_dead_letters=1)


    def unknown_column(directory):
        run(directory, lambda stream: stream.filter(ps.col("price") > 1).collect())
"""

FUNCTIONS = [line.split("(")[0].removeprefix("    def ") for line in FILE.splitlines() if line.endswith("(directory):")]


@dataclass(frozen=True)
class Users:
    """A user's file and folder, and what its functions raised in another process."""

    file: Path
    folder: Path
    there: dict[str, BaseException]

    def here(self, function: str) -> BaseException:
        return raised_here(self.file, function, self.folder)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    folder = tmp_path_factory.mktemp("users")
    (folder / "helpers_of_the_user.py").write_text(dedent(HELPERS))
    file = folder / "failing.py"
    file.write_text(dedent(FILE))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", str(folder))
        yield Users(file, folder, raised_elsewhere(file, folder, FUNCTIONS))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_same_is_said_but_for_the_process(function: str, users: Users) -> None:
    here, there = users.here(function), users.there[function]
    said, named = describe_failure(here), describe_failure(there).splitlines()
    named.remove(f"  raised in {PLACE}")
    assert named == said.splitlines()
    assert said.count("In task") <= 1
    assert is_retryable(there) == is_retryable(here)
    assert error_name(there) == type(here).__name__
    if isinstance(here, errors.PenstockError):
        nearest = next(kind for kind in type(here).__mro__ if kind.__module__ == errors.__name__)
        assert type(there) is nearest
    python = "".join(traceback.format_exception(there))
    # What Python prints by itself has the user's line, too.
    for line in said.splitlines():
        place, separator, name = line.removeprefix("  at ").rpartition(", in ")
        if separator:
            path, _, number = place.rpartition(":")
            assert f'File "{path}", line {number}, in {name}' in python or "Previous line repeated" in python
    assert f"Raised in {PLACE}:" in python


def test_a_notebook_shows_the_same(users: Users) -> None:
    here, there = users.here("own_user_error"), users.there["own_user_error"]
    assert isinstance(here, UserError) and isinstance(there, UserError)
    shown = there._render_traceback_()
    shown.remove(f"  raised in {PLACE}")
    assert shown == here._render_traceback_()
    assert shown[0] == "WrongError: a price is negative"
    assert f"  at {users.file}:" in shown[1] and shown[2].strip().startswith("raise make()")


def test_the_users_lines_of_both_processes_are_shown(users: Users) -> None:
    there = users.there["value_error"]
    with pytest.raises(ValueError) as caught:
        raise there
    lines = [line for line in describe_failure(caught.value).splitlines() if line.startswith("  at ")]
    assert lines[0].startswith(f"  at {users.file}:") and lines[0].endswith("in look")
    assert lines[-1].startswith(f"  at {__file__}:")
    there.__traceback__ = None


def test_causes_come_along_as_far_as_they_go(users: Users) -> None:
    there = users.there["caused"]
    assert type(there.__cause__) is KeyError and str(there.__cause__) == "'price'"
    error: BaseException = ValueError("0")
    first = error
    for number in range(1, 100):
        error.__cause__ = ValueError(str(number))
        error = error.__cause__
    # A ring has no end.
    error.__cause__ = first
    after, causes = error_of(failure_of(first), PLACE), 0
    while after.__cause__ is not None:
        after, causes = after.__cause__, causes + 1
    assert causes == 8


def test_plain_arguments_make_the_same_error() -> None:
    missing = FileNotFoundError(2, "No such file or directory", "/no/such")
    after = error_of(failure_of(missing), PLACE)
    assert isinstance(after, FileNotFoundError)
    assert (after.errno, after.filename, str(after)) == (2, "/no/such", str(missing))
    assert str(error_of(failure_of(KeyError(5)), PLACE)) == "5"


def test_a_bug_keeps_its_cause() -> None:
    bug = BugError("a thread raised")
    bug.__cause__ = RetryableError("the disk")
    after = error_of(failure_of(bug), PLACE)
    assert type(after) is BugError and type(after.__cause__) is RetryableError


def test_the_text_of_a_line_that_only_this_process_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell of a notebook has a file in no other process."""
    monkeypatch.setattr("linecache.getline", lambda file, line: "  1 / 0\n" if file == "<cell 3>" else "")
    assert UserFrame("<cell 3>", 1, "f", "").source == "1 / 0"
    assert UserFrame("<cell 3>", 1, "f", "other").source == "other"
