"""Addresses of task managers, and connections that are made by one way after the other."""

import select
import socket

import pytest

from penstock.engine.transport.addresses import Dial, Transport, Way, listen, ways_of, written


def test_the_best_way_comes_first_and_a_forced_one_alone() -> None:
    address = "tcp:127.0.0.1:99;unix:@here"
    tcp, unix = Way("tcp", "127.0.0.1:99"), Way("unix", "@here")
    assert ways_of(address, None) == [unix, tcp]
    assert ways_of(address, Transport.RING) == [unix]
    assert ways_of(address, Transport.TCP) == [tcp]
    assert ways_of("", None) == []


def test_ways_are_addresses_of_sockets() -> None:
    ways = [Way("unix", "@here"), Way("tcp", "127.0.0.1:99"), Way("tcp", "[::1]:99")]
    assert [(way.family, way.target) for way in ways] == [
        (socket.AF_UNIX, "\0here"),
        (socket.AF_INET, ("127.0.0.1", 99)),
        (socket.AF_INET6, ("::1", 99)),
    ]
    assert ways_of(written(ways), None) == ways


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_a_dial_goes_on_to_the_way_that_leads_there(kind: str) -> None:
    ways, listeners = listen("127.0.0.1", None)
    closed, closed_listeners = listen("127.0.0.1", None)
    for listener in closed_listeners:
        listener.close()
    dial = Dial([*closed, *(way for way in ways if way.kind == kind)])
    while (end := dial.proceed()) is None:
        pending = dial.pending()
        assert pending is not None and select.select([], [pending], [], 30)[1]
    accepted, _ = next(listener for listener, way in zip(listeners, ways, strict=True) if way.kind == kind).accept()
    end.send(b"x")
    assert accepted.recv(1) == b"x"
    for each in (end, accepted, *listeners):
        each.close()


def test_a_dial_that_leads_nowhere_names_all_ways() -> None:
    ways, listeners = listen("127.0.0.1", None)
    for listener in listeners:
        listener.close()
    dial = Dial(ways)
    with pytest.raises(OSError, match=r"unix:@penstock-\w+: Connection refused; tcp:127.0.0.1:\d+: Connection refused"):
        while dial.proceed() is None:
            pending = dial.pending()
            assert pending is not None and select.select([], [pending], [], 30)[1]
    assert dial.pending() is None


def test_a_dial_waits_while_too_many_wait_there() -> None:
    ways, (listener,) = listen("127.0.0.1", Transport.RING)
    waiting: list[socket.socket] = []
    while (end := Dial(ways).proceed()) is not None:
        waiting.append(end)
    dial = Dial(ways)
    assert dial.proceed() is None and dial.pending() is None
    waiting.append(listener.accept()[0])
    end = dial.proceed()
    assert end is not None
    for each in (end, listener, *waiting):
        each.close()
