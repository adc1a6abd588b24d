"""A job whose way to the broker turns slow for a while: no false death, bounded lag, exact output.

A real broker behind a proxy, a real process (docs/design/fault-tests.md N2). Called by the tests for seconds, and by
``make chaos`` for minutes.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from penstock.benchmarks.nexmark.topic import EventTopic
from penstock.chaos.child import Child, Start
from penstock.chaos.compared_outputs import difference
from penstock.chaos.experiment import ChaosError, ChaosReport
from penstock.commands.loading import capture
from penstock.dev.kafka_broker import LocalBroker
from penstock.engine.core.failpoint_settings import VARIABLE
from penstock.model.job_graph import SinkSpec
from tests.chaos.kafka_attacks import INTERVAL, PIPELINE, Events, kafka_lives, make_events
from tests.chaos.kafka_faults import COMPLETE, MODE, PATIENCE_S, QUERY
from tests.chaos.kafka_outputs import TopicOutputs, oracle_rows
from tests.chaos.link_shape import Shape
from tests.chaos.tcp_proxy import TcpProxy, point_at, proxied_listener

FAST = Shape(bytes_per_s=400_000)
"""Before: slow enough for events to be left when the link turns bad."""

SLOW = Shape(delay_s=0.3, bytes_per_s=100_000, loss=0.05)
RESTARTED = "RESTARTED"
LAG_S = 120.0
"""Longest time without a complete checkpoint that still counts as bounded: a fetch of 4 MB takes 40 s over `SLOW`."""


@dataclass(frozen=True, slots=True)
class _Link:
    """A broker, the proxy that leads to it, and events in a topic."""

    proxy: TcpProxy
    events: Events
    outputs: TopicOutputs

    @property
    def input(self) -> str:
        """The topic of the events by way of the proxy."""
        return EventTopic(self.proxy.address, self.events.topic.topic).address


def slow_links(folder: Path, events: int, seconds: float, seed: int, slow: Shape = SLOW) -> ChaosReport:
    """N2: let a job begin, make its link as slow as ``slow`` for so many seconds, and well again until it has ended.

    ``events`` must keep it at work for longer: about 400 of them come in a second over `SLOW`. Every checkpoint that is
    complete while the link is slow is in ``recoveries_s``: the seconds since the one before it, or since the link
    turned slow. ``restarts`` are those of the job, each of which is a failure.
    """
    report = ChaosReport(seed)
    folder.mkdir(parents=True, exist_ok=True)
    with TcpProxy(seed=seed) as proxy, LocalBroker(folder / "broker", listeners=[proxied_listener(proxy)]) as broker:
        point_at(proxy, broker)
        made = make_events(broker.bootstrap, folder / "events", events)
        link = _Link(proxy, made, TopicOutputs(broker.bootstrap))
        try:
            with kafka_lives(QUERY, MODE) as start:
                _live(folder, link, start, report, seconds, slow)
        except ChaosError as failure:
            report.failure = str(failure)
    return report


def _live(folder: Path, link: _Link, start: Start, report: ChaosReport, seconds: float, slow: Shape) -> None:
    arguments = [QUERY, MODE, link.input, *link.outputs.arguments(folder)]
    given = ["run", str(PIPELINE), "--json", f"--checkpoint-interval={INTERVAL}", *link.outputs.options(folder), "--"]
    link.proxy.bend(FAST)
    child = start([*given, *arguments], {VARIABLE: f"{COMPLETE}:1:say"}, folder / "life.json")
    try:
        if _next(child, PATIENCE_S) is None:
            raise _failure("nothing came of a job over a link that is well", child)
        link.proxy.bend(slow)
        last = time.monotonic()
        until = last + seconds
        while (left := until - time.monotonic()) > 0 and not child.ended:
            passed = _next(child, left)
            if passed is not None:
                report.recoveries_s.append(passed - last)
                last = passed
        link.proxy.heal()
        longest = max(*report.recoveries_s, time.monotonic() - last, 0.0)
        if longest > LAG_S:
            raise _failure(f"no checkpoint was complete for {longest:.0f} s while the link was slow", child)
        if child.ended and child.wait() == 0:
            raise ChaosError("the job ended while its link was slow: give it more events")
        while not child.ended:
            if _next(child, PATIENCE_S) is None and not child.ended:
                raise _failure(f"the job hangs: nothing happened for {PATIENCE_S:.0f} s after its link was well", child)
    except BaseException:
        _end(child)
        raise
    report.restarts = sum(RESTARTED in line for line in child.said)
    lines = (folder / "life.json").read_bytes().splitlines()
    if child.wait() != 0 or not lines:
        raise _failure("the job failed", child)
    if report.restarts:
        raise _failure("the job was restarted", child)
    job, _ = capture(PIPELINE, arguments)
    (sink,) = (node.spec for node in job.graph.operators.values() if isinstance(node.spec, SinkSpec))
    expected = oracle_rows(QUERY, link.events.directory)
    found = difference(expected, link.outputs.read(folder, "out", sink))
    report.runs, report.rows_in = 1, int(json.loads(lines[-1])["rows_in"])
    report.rows, report.lost, report.duplicated = found.rows, found.lost, found.duplicated


def _next(child: Child, seconds: float) -> float | None:
    """Return when the next checkpoint was complete; None: nothing came for so long, or it has ended."""
    passed = child.next_point(seconds)
    return None if passed is None else passed[0]


def _failure(what: str, child: Child) -> ChaosError:
    return ChaosError(f"{what}:\n" + "\n".join(child.said))


def _end(child: Child) -> None:
    if not child.ended:
        child.kill()
        child.wait()
