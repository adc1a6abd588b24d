"""What a command under attack says of the points that it comes by."""

import os
import time

from penstock.chaos.child import Child, Speaker


def test_points_are_heard_from_processes_whose_lines_others_pass_on() -> None:
    out, into = os.pipe()
    lines = [
        "penstock: failpoint job.running say",
        "\x1b[36m(tm-0 pid=71)\x1b[0m penstock: failpoint tm-0/manager.joined say",
        "(tm-1 pid=72, ip=10.0.0.7) penstock: failpoint tm-1/manager.joined say",
        "something else",
    ]
    os.write(into, "\n".join(lines).encode())
    os.close(into)
    child = Child(0, os.fdopen(out, "rb"), lambda: 0)
    heard = []
    until_s = time.monotonic() + 60
    while not child.ended and time.monotonic() < until_s:
        point = child.next_point(1.0)
        if point is not None:
            heard.append(point[1])
    assert heard == ["job.running", "tm-0/manager.joined", "tm-1/manager.joined"]
    assert child.speakers == {"tm-0": Speaker(71), "tm-1": Speaker(72, "10.0.0.7")}
    assert list(child.said) == ["something else"]


def test_who_looks_at_the_speakers_is_not_disturbed_by_one_that_speaks_meanwhile() -> None:
    out, into = os.pipe()
    child = Child(0, os.fdopen(out, "rb"), lambda: 0)
    with os.fdopen(into, "wb", buffering=0) as said:
        said.write(b"(tm-0 pid=71) penstock: failpoint tm-0/manager.joined say\n")
        assert child.next_point(60) is not None
        seen = child.speakers
        for name in seen:
            said.write(b"(tm-1 pid=72) penstock: failpoint tm-1/manager.joined say\n")
            assert child.next_point(60) is not None
            assert name == "tm-0"
    assert child.speakers.keys() == {"tm-0", "tm-1"}
