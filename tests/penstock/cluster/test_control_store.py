"""A driver knows when the control store of its cluster is away, and when it is gone."""

import socket

from penstock.cluster.control_store import GONE_S, ControlStore


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_control_store_is_away_and_comes_back_or_is_gone() -> None:
    clock = Clock()
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        store = ControlStore(f"{host}:{port}", clock)
        assert store.answers() and not store.is_gone
    assert not store.answers() and not store.is_gone
    clock.now_s = GONE_S - 1
    with socket.create_server((host, port)):
        assert store.answers()
    clock.now_s += 1
    assert not store.answers() and not store.is_gone
    clock.now_s += GONE_S
    assert not store.answers() and store.is_gone
