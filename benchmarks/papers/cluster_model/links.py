"""Capacity of links between machines, and the bytes that they carried by purpose."""

import numpy as np

from penstock.benchmarks.papers.cluster_model.sharing import allowances
from penstock.benchmarks.papers.cluster_model.spec import MachineSpec
from penstock.benchmarks.papers.cluster_model.topology import Topology
from penstock.model.columns import Floats


class Links:
    """The links of all machines, each with a capacity each way. Rows between instances of a machine use none."""

    def __init__(self, machines: tuple[MachineSpec, ...]) -> None:
        """Take the machines; nothing flows yet."""
        self._machines = len(machines)
        self.capacity = np.array([machine.link_bytes_per_s for machine in machines])
        self.heartbeat = np.array([machine.heartbeat_bytes_per_s for machine in machines])
        self._outward = np.zeros((0, self._machines))
        self._inward = np.zeros((0, self._machines))

    def join(self, top: Topology) -> None:
        """Take over which part of each edge's rows leaves and reaches each machine."""
        self._outward = top.edge_producer_share * (1 - top.edge_machine_share)
        self._inward = top.edge_machine_share * (1 - top.edge_producer_share)
        self._edge, self._flow = np.nonzero(np.hstack((self._outward, self._inward)))
        self._share = np.hstack((self._outward, self._inward))[self._edge, self._flow]

    def room(self, demand: Floats, row_bytes: Floats, checkpoint: Floats, dt: float) -> Floats | None:
        """Return how many rows each edge may send in ``dt`` seconds; None: links limit nothing.

        ``demand`` is rows a second; heartbeats and ``checkpoint`` bytes a second go first. Edges share links max-min.
        """
        if not np.isfinite(self.capacity).any() or not len(self._edge):
            return None
        left = np.maximum(0.0, self.capacity - self.heartbeat - checkpoint)
        claims = (demand * row_bytes)[self._edge] * self._share
        got = allowances(claims, self._flow, np.concatenate((left, left)))
        rows = np.full(len(demand), np.inf)
        np.minimum.at(rows, self._edge, got / np.maximum(self._share * row_bytes[self._edge], 1e-300))
        return rows * dt

    def carried(self, rows: Floats, row_bytes: Floats) -> Floats:
        """Return the bytes of these rows, by edge, that each machine's link carried, both ways."""
        carried: Floats = (rows * row_bytes) @ (self._outward + self._inward)
        return carried
