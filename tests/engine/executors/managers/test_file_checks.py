"""A head asks task managers of other hosts what they see, before anything is deployed; those beside it it does not."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.shared_files import seen_files
from penstock.engine.jobs.leases import make_leases
from penstock.model.errors import UserError, WorkerLostError
from tests.engine.executors.managers.scripted_managers import Answer, Scene, obey


def from_elsewhere(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
    """Answer as a task manager of another host, which sees the same files."""
    match order:
        case ms.Setup():
            return [ms.Joined(1, f"nowhere:{name}", "another host")]
        case ms.LookAtFiles():
            return [seen_files(order)]
    return obey(name, order)


def from_another_disk(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
    """Answer as one of which one sees nothing of what the head sees."""
    if name == "tm-1" and isinstance(order, ms.LookAtFiles):
        return [ms.FilesSeen("the other host", (None,) * len(order.folders), (None,) * len(order.files))]
    return from_elsewhere(name, order)


@contextmanager
def scene(folder: Path, answer: Answer) -> Iterator[Scene]:
    """Give a head that holds the lease of its output, in its context."""
    made = Scene(folder, 2, answer)
    leases = make_leases("job", made.plan.graph, made.clock, None, "")
    leases.acquire(None, lambda seconds: None, lambda text: None, lambda: None)
    try:
        with made.head:
            yield made
    finally:
        leases.release()


def orders(found: Scene, name: str) -> list[type]:
    return [type(order) for order in found.launcher.managers[name].heard]


def test_task_managers_beside_the_head_are_asked_nothing(tmp_path: Path) -> None:
    with scene(tmp_path, obey) as found:
        found.attempt()
        assert all(ms.LookAtFiles not in orders(found, name) for name in found.launcher.managers)


def test_those_of_other_hosts_are_asked_before_anything_is_deployed_and_once_in_an_attempt(tmp_path: Path) -> None:
    with scene(tmp_path, from_elsewhere) as found:
        found.attempt()
        for name in found.launcher.managers:
            asked = [kind for kind in orders(found, name) if kind in (ms.LookAtFiles, ms.Deploy)]
            assert asked == [ms.LookAtFiles, *[ms.Deploy] * (len(asked) - 1)]
            order = next(order for order in found.launcher.managers[name].heard if isinstance(order, ms.LookAtFiles))
            assert [folder.path for folder in order.folders] == [str(tmp_path / "out")]


def test_a_job_is_refused_where_one_sees_another_folder_and_nothing_is_deployed(tmp_path: Path) -> None:
    heard: list[type] = []

    def answer(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        heard.append(type(order))
        return from_another_disk(name, order)

    words = "'the other host', or none, where task manager 'tm-1' runs"
    with scene(tmp_path, answer) as found, pytest.raises(UserError, match=words):
        found.attempt()
    assert ms.LookAtFiles in heard and ms.Deploy not in heard


def test_one_that_is_lost_while_it_looks_is_not_waited_for(tmp_path: Path) -> None:
    def answer(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        if isinstance(order, ms.LookAtFiles) and name == "tm-0":
            found.launcher.end(name)
            return []
        return from_elsewhere(name, order)

    with scene(tmp_path, answer) as found:
        attempt = found.attempt()
        assert "tm-0" not in set(attempt.places().values())


def test_if_none_is_left_the_attempt_fails_as_one_that_has_lost_them(tmp_path: Path) -> None:
    def answer(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        if isinstance(order, ms.LookAtFiles):
            found.launcher.refusals = 9
            found.launcher.end(name)
            return []
        return from_elsewhere(name, order)

    with scene(tmp_path, answer) as found, pytest.raises(WorkerLostError, match="all task managers were lost"):
        found.attempt()


def test_an_answer_that_nobody_awaits_changes_nothing(tmp_path: Path) -> None:
    def answer(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        said = list(from_elsewhere(name, order))
        # Once more, and with other words.
        return said + [replace_owners(message) for message in said if isinstance(message, ms.FilesSeen)]

    with scene(tmp_path, answer) as found:
        assert found.attempt().is_up()


def replace_owners(message: ms.FilesSeen) -> ms.FilesSeen:
    return ms.FilesSeen(message.host, (None,) * len(message.owners), message.files)
