"""The flow network of an application: its operators as edges between the hubs of their exchanges (Flink-ER, 2.2).

All is in shares of need. A row of the log passes every branch behind a split, so no branch does the work of another:
each way from the log to an end carries an equal part of the need, and an exchange no more than the parts of the ways
through it. The need fits if, and only if, all of it flows. Called by `flow_network`.
"""

from collections.abc import Collection, Sequence
from itertools import chain

from penstock.scheduler.residual_network import ResidualNetwork

LOG = -1
"""Where rows come from that no operator of the network has put out."""

AMPLE = 100.0
"""More than so many needs nothing is asked to carry: capacities beyond are all alike, and none is infinite."""

ENOUGH = 1 - 1e-7
"""The share of the need that counts as all of it."""

_SOURCE, _SINK, _FIRST = 0, 1, 2


class OperatorNetwork:
    """A network with a flow through all operators in the same share of their needs; operators are numbers from 0.

    ``inputs``: those, before it, whose rows an operator takes, or `LOG`; ``wholes``: their capacities;
    ``flowing``: the share of the need that flows at the beginning, in [0, 1], which no capacity is below.

    An operator is one edge: its instances lie between the same two hubs. Vertices are the log, the end of all ways, a
    hub before each operator, and one behind an operator whose rows go several ways.
    """

    def __init__(self, inputs: Sequence[Collection[int]], wholes: Sequence[float], flowing: float) -> None:
        outputs: list[list[int]] = [[] for _ in range(len(inputs) + 1)]
        for operator, above in enumerate(inputs):
            for producer in above:
                outputs[producer].append(operator)
        self._parts, exchanged = _parts(outputs)
        splits = [operator for operator, below in enumerate(outputs[:-1]) if len(below) > 1]
        behind = {operator: hub for hub, operator in enumerate(splits, _FIRST + len(inputs))}
        behind[LOG] = _SOURCE
        self._short = [whole < ENOUGH for whole in wholes]
        edges = []
        for operator, (whole, part, below) in enumerate(zip(wholes, self._parts, outputs, strict=False)):
            head = _SINK if not below else _FIRST + below[0] if len(below) == 1 else behind[operator]
            edges.append((_FIRST + operator, head, (whole if whole < ENOUGH else AMPLE) * part, flowing * part))
        for producer, consumer, part in exchanged:
            if producer in behind:
                edges.append((behind[producer], _FIRST + consumer, part, flowing * part))
        if not inputs:
            edges.append((_SOURCE, _SINK, 1.0, flowing))
        self._network = ResidualNetwork(_FIRST + len(inputs) + len(splits), edges)
        self._cut: list[int] = []

    def augment(self) -> float:
        """Raise the flow along shortest paths as far as it goes, and return its value, a share of the need."""
        value = self._network.augment(_SOURCE, _SINK)
        self._cut = self._network.cut()
        return value

    def short(self) -> list[int]:
        """Return the operators at the least cut that carry less than the need; none if all of it flows."""
        return [edge for edge in self._cut if edge < len(self._short) and self._short[edge]]

    def cut_capacity(self) -> float:
        """Return what the least cut carries of the need, as much as flows."""
        return self._network.cut_capacity(self._cut)

    def raise_to_the_need(self, operators: Sequence[int]) -> None:
        """Give operators capacity for all of the need."""
        for operator in operators:
            self._short[operator] = False
            self._network.widen(operator, AMPLE * self._parts[operator])


def _parts(outputs: Sequence[Sequence[int]]) -> tuple[list[float], list[tuple[int, int, float]]]:
    """Return the part of the need that each operator has, and producer, consumer and part of each exchange.

    ``outputs``: who takes the rows of an operator, and, the last, those of the log.
    """
    count = len(outputs) - 1
    ways = [0.0] * (count + 1)
    for operator in chain(range(count - 1, -1, -1), (count,)):
        below = outputs[operator]
        ways[operator] = sum([ways[consumer] for consumer in below]) if below else 1.0
    parts, exchanged = [0.0] * count, list[tuple[int, int, float]]()
    for producer in range(-1, count):
        own = 1.0 if producer == LOG else parts[producer]
        for consumer in outputs[producer]:
            part = own * (ways[consumer] / ways[producer])
            parts[consumer] += part
            exchanged.append((producer, consumer, part))
    return parts, exchanged
