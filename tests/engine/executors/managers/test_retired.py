"""What a task manager that has left contributed is part of all checkpoints that follow, until its tasks begin anew."""

from typing import cast
from unittest.mock import Mock

from penstock.engine.dataflow.checkpoint_port import Contribution
from penstock.engine.executors.managers.awaited_uploads import AwaitedUploads
from penstock.engine.executors.managers.deployed_parts import DeployedPart, DeployedParts
from penstock.engine.executors.managers.deployment import Deployment
from penstock.engine.executors.managers.deployments import Deployments
from penstock.engine.executors.managers.growth_messages import PeerGone
from penstock.engine.executors.managers.manager_growth import ManagerGrowth
from penstock.engine.executors.managers.retired import Retired
from penstock.model.ids import TaskId

HERE, THERE = frozenset({TaskId(0), TaskId(1)}), frozenset({TaskId(2)})


def part(rows: int) -> Contribution:
    return Contribution(counters={"rows": {"rows_in": rows}}, ended={"rows": 1})


def retired() -> tuple[Retired, AwaitedUploads]:
    """Return one of a job with two regions; 'tm-0' hosts something of the first and has contributed to a checkpoint."""
    uploads = AwaitedUploads(lambda parts: None)
    uploads.begin(1, ["tm-0", "tm-1"])
    uploads.add(1, "tm-0", part(3))
    uploads.add(1, "tm-1", part(4))
    deployments = Mock(spec=Deployments)
    one, two = Deployment(1, HERE, {"a[0]": "tm-0", "a[1]": "tm-1"}), Deployment(2, THERE, {"b[0]": "tm-1"})
    deployments.__iter__ = Mock(side_effect=lambda: iter([one, two]))
    gone = Retired(deployments, uploads, lambda: None)
    gone.add("tm-0")
    return gone, uploads


def rows_of(uploads: AwaitedUploads, epoch: int) -> list[int]:
    future = uploads.begin(epoch, ["tm-1"])
    uploads.add(epoch, "tm-1", part(5))
    return [item.counters["rows"]["rows_in"] for item in future.result(0)]


def test_it_is_part_of_all_that_follow() -> None:
    _, uploads = retired()
    assert rows_of(uploads, 2) == rows_of(uploads, 3) == [3, 5]


def test_it_is_awaited_no_more() -> None:
    uploads = AwaitedUploads(lambda parts: None)
    first = uploads.begin(1, ["tm-0"])
    uploads.add(1, "tm-0", part(3))
    assert first.result(0)[0].ended == {"rows": 1}
    second = uploads.begin(2, ["tm-0"])
    uploads.retire("tm-0")
    # Rows may follow elsewhere.
    assert [item.ended for item in second.result(0)] == [{}]


def test_it_goes_with_the_tasks_that_begin_anew() -> None:
    gone, uploads = retired()
    assert not gone.gone(HERE)
    assert rows_of(uploads, 2) == [5]


def test_another_head_does_not_go_on_with_what_was_beside_it() -> None:
    part, closed = Mock(spec=DeployedPart, fault=None), list[str]()
    growth = ManagerGrowth(cast(DeployedParts, [(1, part)]), Mock(), Mock(), closed.append)
    growth.hear(PeerGone("tm-0"), None)
    assert closed == ["tm-0"]
    assert part.fault == "only the head before has what 'tm-0' has contributed and left"


def test_where_others_began_anew_all_must() -> None:
    gone, uploads = retired()
    assert gone.gone(THERE) and gone.gone(frozenset({TaskId(0)}))
    assert rows_of(uploads, 2) == [3, 5]
