"""A task manager hears that its node is drained, once."""

from collections.abc import Collection
from queue import SimpleQueue

from penstock.engine.executors.ray.node_drain import DrainWatch

PATIENCE_S = 60.0


def test_the_notice_is_given_once_and_for_this_node_alone() -> None:
    answers = iter([(), {"other"}, {"other", "mine"}])
    asked, noticed = SimpleQueue[int](), SimpleQueue[None]()

    def read() -> Collection[str]:
        asked.put(noticed.qsize())
        return next(answers)

    watch = DrainWatch("mine", lambda: noticed.put(None), read, look_s=0.0)
    noticed.get(timeout=PATIENCE_S)
    watch.close()
    assert [asked.get_nowait() for _ in range(asked.qsize())] == [0, 0, 0] and noticed.empty()
