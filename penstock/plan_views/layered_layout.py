"""Lays out a directed acyclic graph in layers (Sugiyama's method); knows nothing of plans.

Made for pictures of up to some sixty boxes. Deterministic: the same graph gives the same picture.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

SWEEPS = 8
"""How often the order within layers and the positions are improved."""


@dataclass(frozen=True, slots=True)
class Box:
    """Size of a node."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    """Top left corner of every box, the points every edge passes, and the size of the whole.

    An edge starts at the bottom of its first box and ends at the top of its second. Between its
    points it runs, in turn, free between two layers and straight down past a layer.
    """

    corners: tuple[tuple[float, float], ...]
    routes: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


def lay_out(boxes: Sequence[Box], edges: Sequence[tuple[int, int]], *, gap_x: float = 32, gap_y: float = 64) -> Layout:
    """Place boxes so that edges, pairs of indices into them, point downwards and cross rarely."""
    if not boxes:
        return Layout((), (), 0, 0)
    grid = _Grid(boxes, edges)
    grid.reduce_crossings()
    grid.place(gap_x)
    return grid.draw(gap_y)


def layers_of(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return every node's layer: below its predecessors; sources just above their successors."""
    before = _neighbours(count, [(target, source) for source, target in edges])
    after = _neighbours(count, edges)
    order: list[int] = []
    waiting = [len(nodes) for nodes in before]
    ready = [node for node in range(count) if not waiting[node]]
    layer = [0] * count
    while ready:
        node = ready.pop(0)
        order.append(node)
        for following in after[node]:
            layer[following] = max(layer[following], layer[node] + 1)
            waiting[following] -= 1
            if not waiting[following]:
                ready.append(following)
    for node in reversed(order):
        if after[node] and not before[node]:
            layer[node] = min(layer[following] for following in after[node]) - 1
    return layer


@dataclass
class _Grid:
    """The graph with a waypoint wherever an edge passes a layer: every link goes one layer down."""

    boxes: Sequence[Box]
    edges: Sequence[tuple[int, int]]
    sizes: list[Box] = field(init=False)
    rows: list[list[int]] = field(init=False)
    paths: list[list[int]] = field(init=False)
    above: list[list[int]] = field(init=False)
    below: list[list[int]] = field(init=False)
    middle: list[float] = field(init=False)

    def __post_init__(self) -> None:
        layer = layers_of(len(self.boxes), self.edges)
        self.sizes = list(self.boxes)
        self.rows = [[] for _ in range(max(layer) + 1)]
        for node, row in enumerate(layer):
            self.rows[row].append(node)
        self.paths = []
        for source, target in self.edges:
            waypoints = range(len(self.sizes), len(self.sizes) + layer[target] - layer[source] - 1)
            for row, waypoint in enumerate(waypoints, layer[source] + 1):
                self.rows[row].append(waypoint)
                self.sizes.append(Box(8, 0))
            self.paths.append([source, *waypoints, target])
        links = [link for path in self.paths for link in pairwise(path)]
        self.below = _neighbours(len(self.sizes), links)
        self.above = _neighbours(len(self.sizes), [(target, source) for source, target in links])
        self.middle = [0.0] * len(self.sizes)

    def reduce_crossings(self) -> None:
        """Order rows by the mean position of neighbours, down and up, and keep the best order."""
        best = [list(row) for row in self.rows]
        fewest = self._crossings()
        for sweep in range(SWEEPS):
            downwards = sweep % 2 == 0
            neighbours = self.above if downwards else self.below
            for row in self.rows if downwards else reversed(self.rows):
                place = self._places()
                row.sort(key=lambda node: _mean([place[item] for item in neighbours[node]], place[node]))
            crossings = self._crossings()
            if crossings < fewest:
                fewest, best = crossings, [list(row) for row in self.rows]
        self.rows = best

    def place(self, gap: float) -> None:
        """Put every node near the middle of its neighbours, in the order of its row."""
        for row in self.rows:
            self._settle(row, [0.0] * len(row), gap)
        for sweep in range(SWEEPS):
            downwards = sweep % 2 == 0
            neighbours = self.above if downwards else self.below
            for row in self.rows if downwards else reversed(self.rows):
                wanted = [_mean([self.middle[item] for item in neighbours[node]], self.middle[node]) for node in row]
                self._settle(row, wanted, gap)

    def draw(self, gap: float) -> Layout:
        """Turn middles into coordinates that start at zero."""
        left = min(self.middle[node] - self.sizes[node].width / 2 for node in range(len(self.sizes)))
        right = max(self.middle[node] + self.sizes[node].width / 2 for node in range(len(self.sizes)))
        top = [0.0] * len(self.sizes)
        bottom = [0.0] * len(self.sizes)
        y = 0.0
        for row in self.rows:
            height = max(self.sizes[node].height for node in row)
            for node in row:
                top[node] = y
                bottom[node] = y + (self.sizes[node].height if node < len(self.boxes) else height)
            y += height + gap
        corners = [(self.middle[node] - box.width / 2 - left, top[node]) for node, box in enumerate(self.boxes)]
        starts, ends = self._ports(left)
        routes = []
        for edge, path in enumerate(self.paths):
            passing = [(self.middle[node] - left, y) for node in path[1:-1] for y in (top[node], bottom[node])]
            routes.append(((starts[edge], bottom[path[0]]), *passing, (ends[edge], top[path[-1]])))
        return Layout(tuple(corners), tuple(routes), right - left, y - gap)

    def _ports(self, left: float) -> tuple[dict[int, float], dict[int, float]]:
        """Spread the edges of a box along its side, in the order of where they go."""
        starts: dict[int, float] = {}
        ends: dict[int, float] = {}
        for node, box in enumerate(self.boxes):
            corner = self.middle[node] - box.width / 2 - left
            leaving = [edge for edge, path in enumerate(self.paths) if path[0] == node]
            arriving = [edge for edge, path in enumerate(self.paths) if path[-1] == node]
            leaving.sort(key=lambda edge: self.middle[self.paths[edge][1]])
            arriving.sort(key=lambda edge: self.middle[self.paths[edge][-2]])
            for ports, group in ((starts, leaving), (ends, arriving)):
                for index, edge in enumerate(group):
                    ports[edge] = corner + box.width * (index + 1) / (len(group) + 1)
        return starts, ends

    def _places(self) -> dict[int, float]:
        return {node: place - len(row) / 2 for row in self.rows for place, node in enumerate(row)}

    def _crossings(self) -> int:
        place = self._places()
        total = 0
        for row in self.rows:
            links = [(place[node], place[item]) for node in row for item in self.below[node]]
            total += sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for index, a in enumerate(links) for b in links[:index])
        return total

    def _settle(self, row: list[int], wanted: list[float], gap: float) -> None:
        """Set the row's middles as near to ``wanted`` as order and gaps allow (least squares)."""
        offsets = [0.0]
        for left, right in pairwise(row):
            offsets.append(offsets[-1] + (self.sizes[left].width + self.sizes[right].width) / 2 + gap)
        free = non_decreasing([target - offset for target, offset in zip(wanted, offsets, strict=True)])
        for node, position, offset in zip(row, free, offsets, strict=True):
            self.middle[node] = position + offset


def non_decreasing(values: Sequence[float]) -> list[float]:
    """Return the non-decreasing sequence nearest to the values in the least-squares sense."""
    pools: list[tuple[float, int]] = []
    for value in values:
        mean, count = value, 1
        while pools and pools[-1][0] > mean:
            other, members = pools.pop()
            mean = (mean * count + other * members) / (count + members)
            count += members
        pools.append((mean, count))
    return [mean for mean, count in pools for _ in range(count)]


def _neighbours(count: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        neighbours[source].append(target)
    return neighbours


def _mean(values: list[float], default: float) -> float:
    return sum(values) / len(values) if values else default
