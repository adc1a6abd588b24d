"""Errors that cross processes as values."""

import builtins

import msgspec
import pytest

from penstock.engine.executors.managers.failures import Failure, error_of, failure_of
from penstock.engine.jobs.restart_policy import is_retryable
from penstock.model import errors
from penstock.model.error_origins import note_lines, origin_of, user_frames
from penstock.model.errors import PenstockError, UserError

OURS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, PenstockError)]


def crossed(error: BaseException, place: str = "task manager 'tm-1'") -> BaseException:
    data = msgspec.msgpack.encode(failure_of(error))
    return error_of(msgspec.msgpack.decode(data, type=Failure), place)


class OddError(ValueError):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two} do not go together")


@pytest.mark.parametrize("kind", [*OURS, ValueError, KeyError, ConnectionResetError, TimeoutError, ZeroDivisionError])
def test_an_error_stays_what_it_is(kind: type[BaseException]) -> None:
    after = crossed(kind("'a' is not there"))
    assert type(after) is kind
    assert after.args == ("'a' is not there",)
    assert is_retryable(after) == is_retryable(kind("x"))


def test_a_class_that_only_the_other_process_knows_becomes_the_nearest_known_one() -> None:
    after = crossed(OddError(1, 2))
    assert type(after) is ValueError
    assert str(after) == "OddError: 1 and 2 do not go together"


def test_python_errors_that_are_not_made_of_a_message() -> None:
    after = crossed(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"))
    assert isinstance(after, ValueError)
    assert "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff" in str(after)


def fail_for_the_user() -> None:
    raise UserError("a price is negative")


def test_notes_and_the_line_that_raised_come_along() -> None:
    with pytest.raises(UserError) as caught:
        fail_for_the_user()
    caught.value.add_note("In task filter[1].")
    notes = crossed(caught.value).__notes__
    assert notes[0] == "In task filter[1]."
    assert notes[1].startswith("Raised in task manager 'tm-1':")
    assert 'raise UserError("a price is negative")' in notes[1] and __file__ in notes[1]


def test_an_error_that_goes_through_a_head_actor_names_the_process_that_raised_it() -> None:
    with pytest.raises(UserError) as caught:
        fail_for_the_user()
    once = crossed(caught.value)
    with pytest.raises(UserError) as passed_on:
        raise once
    twice = crossed(passed_on.value, "the head actor")
    assert twice.__notes__ == once.__notes__ and len(once.__notes__) == 1
    assert origin_of(twice) is not None and user_frames(twice) == user_frames(once)
    assert [*note_lines(twice)] == ["  raised in task manager 'tm-1'"]


def test_nothing_but_errors_is_made_whatever_comes() -> None:
    for name in ("builtins.print", "builtins.eval", "penstock.model.errors.PIPE_CLOSED", "os.system", "x"):
        assert type(error_of(Failure((name,), "made up"), "tm-0")) is errors.BugError
    assert all(isinstance(vars(builtins)[name], type) for name in ("ValueError", "OSError"))
