"""Draws a physical plan as SVG: the tasks one below the other, arrows with their exchanges beside them.

It needs no other program and no layout: arrows run beside the boxes, each in a lane that is free on its way. The
picture brings its own background, so that it reads alike on light and on dark pages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from penstock.engine.operators.descriptions import Words
from penstock.model.execution_graph import Edge, ExecutionGraph, Task
from penstock.model.ids import OperatorId
from penstock.model.job_graph import OperatorNode, SinkSpec, SourceSpec
from penstock.plan_views.words import chain, display_name, edge_text, legend, side_output, summary, task_text, words

CUT_CHARACTERS = 56
"""Longer lines are cut; the whole text is the box's tooltip."""

_CHARACTER = 7.3
"""Width of a character in 12px, in the widest of the fonts."""

_LINE, _PADDING, _MARGIN, _INDENT, _GAP, _LANE = 16.0, 12.0, 20.0, 14.0, 22.0, 14.0

_STYLE = """
.penstock-plan text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2933}
.penstock-plan .task{fill:#ffffff;stroke:#9aa5b1}
.penstock-plan .source{stroke:#2f855a;stroke-width:1.5}
.penstock-plan .sink{stroke:#2b6cb0;stroke-width:1.5}
.penstock-plan .head,.penstock-plan .label,.penstock-plan .detail{fill:#52606d}
.penstock-plan .name{font-weight:bold}
.penstock-plan .label{font-style:italic}
.penstock-plan .edge{fill:none;stroke:#52606d;stroke-width:1.5;stroke-linejoin:round}
"""


_ARROW = (
    '<defs><marker id="penstock-arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
    'markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="#52606d"/></marker></defs>'
)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a box; ``at``: the input (operator, port) or operator that it names, where arrows end or begin."""

    text: str
    style: str
    indent: float = 0
    at: tuple[OperatorId, int] | OperatorId | None = None


@dataclass(frozen=True, slots=True)
class _Card:
    """A task as it is drawn."""

    style: str
    lines: tuple[_Line, ...]
    tooltip: str

    @property
    def width(self) -> float:
        return max(line.indent + len(line.text) * _CHARACTER for line in self.lines) + 2 * _PADDING

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + 2 * _PADDING - 4


def svg(graph: ExecutionGraph) -> str:
    """Return a physical plan as a complete SVG document, also fit for embedding in HTML."""
    channels = [edge for edge in graph.edges if not edge.chained]
    described = words(graph)
    cards = [_card(graph, task, channels, described) for task in graph.tasks]
    tops = [_MARGIN]
    for card in cards:
        tops.append(tops[-1] + card.height + _GAP)
    middles = {
        line.at: top + _PADDING + 4 + number * _LINE
        for card, top in zip(cards, tops, strict=False)
        for number, line in enumerate(card.lines)
    }
    spans = [(middles[edge.producer], middles[edge.consumer, edge.port]) for edge in channels]
    lanes = free_lanes(spans)
    left = _MARGIN + _LANE * (max(lanes, default=-1) + 1)
    foot = f"{summary(graph)}. {legend(graph)}"
    width = max(left + max((card.width for card in cards), default=0), _MARGIN + len(foot) * _CHARACTER) + _MARGIN
    height = tops[-1] + _LINE
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" class="penstock-plan" role="img" '
        f'width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<title>plan: {escape(summary(graph))}</title>",
        f"<style>{_STYLE}</style>",
        _ARROW,
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="6" fill="#f5f7fa"/>',
        *(_draw_card(card, left, top) for card, top in zip(cards, tops, strict=False)),
        *(
            f'<path class="edge" d="M{left:.1f} {begin:.1f}H{left - _LANE * (lane + 1):.1f}V{end:.1f}H{left:.1f}" '
            'marker-end="url(#penstock-arrow)"/>'
            for (begin, end), lane in zip(spans, lanes, strict=True)
        ),
        f'<text class="detail" x="{_MARGIN:.0f}" y="{height - 14:.1f}">{escape(foot)}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def free_lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """Return a lane for every span, 0 the nearest, such that spans in the same lane do not touch; short ones first."""
    lanes: dict[int, int] = {}
    for number in sorted(range(len(spans)), key=lambda number: abs(spans[number][1] - spans[number][0])):
        low, high = sorted(spans[number])
        taken = {lane for other, lane in lanes.items() if min(spans[other]) <= high and low <= max(spans[other])}
        lanes[number] = next(lane for lane in range(len(spans)) if lane not in taken)
    return [lanes[number] for number in range(len(spans))]


def _card(graph: ExecutionGraph, task: Task, channels: Sequence[Edge], described: Mapping[OperatorId, Words]) -> _Card:
    arriving = [edge for edge in channels if edge.consumer in task.operators]
    lines = [_Line(_cut(edge_text(graph, edge)), "label", at=(edge.consumer, edge.port)) for edge in arriving]
    lines.append(_Line(task_text(task), "head"))
    tooltip = [*(edge_text(graph, edge) for edge in arriving), task_text(task)]
    style = "task"
    for node, depth in chain(graph, task):
        said = described[node.id]
        texts = [said.headline, *(f"{label}: {text}" for label, text in said.details)]
        name = side_output(graph, node.id) + display_name(node)
        lines.append(_Line(_cut(name), "name", depth * _INDENT, node.id))
        lines += [_Line(_cut(text), "detail", (depth + 1) * _INDENT) for text in texts]
        tooltip += [name, *(f"  {text}" for text in texts)]
        style = _style(node) or style
    return _Card(style, tuple(lines), "\n".join(tooltip))


def _style(node: OperatorNode) -> str | None:
    if isinstance(node.spec, SourceSpec):
        return "task source"
    return "task sink" if isinstance(node.spec, SinkSpec) else None


def _draw_card(card: _Card, x: float, y: float) -> str:
    parts = [
        f"<g><title>{escape(card.tooltip)}</title>",
        f'<rect class="{card.style}" x="{x:.1f}" y="{y:.1f}" width="{card.width:.1f}" '
        f'height="{card.height:.1f}" rx="5"/>',
    ]
    for number, line in enumerate(card.lines):
        place = f'x="{x + _PADDING + line.indent:.1f}" y="{y + _PADDING + 8 + number * _LINE:.1f}"'
        parts.append(f'<text class="{line.style}" {place}>{escape(line.text)}</text>')
    return "".join(parts) + "</g>"


def _cut(text: str) -> str:
    return text if len(text) <= CUT_CHARACTERS else text[: CUT_CHARACTERS - 1] + "…"
