"""What a command under attack says of the points that it comes by."""

import os
import time

from penstock.chaos.child import Child


def test_points_are_heard_from_processes_whose_lines_others_pass_on() -> None:
    out, into = os.pipe()
    lines = [
        "penstock: failpoint job.running say",
        "\x1b[36m(tm-0 pid=71)\x1b[0m penstock: failpoint tm-0/manager.joined say",
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
    assert heard == ["job.running", "tm-0/manager.joined"]
    assert list(child.said) == ["something else"]
