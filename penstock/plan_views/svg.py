"""Draws a physical plan as SVG: a box a task with its operators, arrows with their exchanges.

It needs no other program. The picture brings its own background, so that it reads alike on light
and on dark pages.
"""

from dataclasses import dataclass
from html import escape
from itertools import pairwise

from penstock.model.execution_graph import Edge, ExecutionGraph, Task
from penstock.model.job_graph import OperatorNode, SinkSpec, SourceSpec
from penstock.plan_views.layered_layout import Box, lay_out
from penstock.plan_views.operator_words import words
from penstock.plan_views.words import chain, display_name, edge_text, legend, side_output, summary, task_text

CUT_CHARACTERS = 56
"""Longer lines are cut; the whole text is the box's tooltip."""

_CHARACTER = 7.3
"""Width of a character in 12px, in the widest of the fonts."""

_LINE = 16.0
_PADDING = 12.0
_MARGIN = 20.0
_INDENT = 14.0
_LABEL_CHARACTER = 6.7

_STYLE = """
.penstock-plan text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2933}
.penstock-plan .task{fill:#ffffff;stroke:#9aa5b1}
.penstock-plan .source{stroke:#2f855a;stroke-width:1.5}
.penstock-plan .sink{stroke:#2b6cb0;stroke-width:1.5}
.penstock-plan .head{fill:#52606d}
.penstock-plan .name{font-weight:bold}
.penstock-plan .detail{fill:#52606d}
.penstock-plan .edge{fill:none;stroke:#52606d;stroke-width:1.5}
.penstock-plan .label{font-size:11px;paint-order:stroke;stroke:#f5f7fa;stroke-width:4px}
"""


_ARROW = (
    '<defs><marker id="penstock-arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
    'markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="#52606d"/></marker></defs>'
)


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    style: str
    indent: float


@dataclass(frozen=True, slots=True)
class _Card:
    """A task as it is drawn."""

    task: Task
    style: str
    lines: tuple[_Line, ...]
    tooltip: str
    box: Box


def svg(graph: ExecutionGraph) -> str:
    """Return a physical plan as a complete SVG document, also fit for embedding in HTML."""
    channels = [edge for edge in graph.edges if not edge.chained]
    cards = [_card(graph, task, channels) for task in graph.tasks]
    index = {operator: number for number, task in enumerate(graph.tasks) for operator in task.operators}
    layout = lay_out(
        [card.box for card in cards],
        [(index[edge.producer], index[edge.consumer]) for edge in channels],
    )
    foot = f"{summary(graph)}. {legend(graph)}"
    width = max(layout.width, len(foot) * _CHARACTER) + 2 * _MARGIN
    height = layout.height + 2 * _MARGIN + _LINE + 8
    shift = (width - layout.width) / 2
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" class="penstock-plan" role="img" '
        f'width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<title>plan: {escape(summary(graph))}</title>",
        f"<style>{_STYLE}</style>",
        _ARROW,
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="6" fill="#f5f7fa"/>',
        f'<g transform="translate({shift:.1f} {_MARGIN:.1f})">',
        *(_draw_edge(route) for route in layout.routes),
        *(_draw_card(card, corner) for card, corner in zip(cards, layout.corners, strict=True)),
        *(_draw_label(graph, edge, route) for edge, route in zip(channels, layout.routes, strict=True)),
        "</g>",
        f'<text class="detail" x="{_MARGIN:.0f}" y="{height - 14:.1f}">{escape(foot)}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _card(graph: ExecutionGraph, task: Task, channels: list[Edge]) -> _Card:
    lines = [_Line(task_text(task), "head", 0)]
    tooltip = [task_text(task)]
    style = "task"
    for node, depth in chain(graph, task):
        described = words(node)
        texts = [described.headline, *(f"{label}: {text}" for label, text in described.details)]
        name = side_output(graph, node.id) + display_name(node)
        lines.append(_Line(_cut(name), "name", depth * _INDENT))
        lines += [_Line(_cut(text), "detail", (depth + 1) * _INDENT) for text in texts]
        tooltip += [name, *(f"  {text}" for text in texts)]
        style = _style(node) or style
    arriving = [edge_text(graph, edge) for edge in channels if edge.consumer in task.operators]
    labels = max((len(text) for text in arriving), default=0) * _LABEL_CHARACTER + 16
    width = max(
        max(line.indent + len(line.text) * _CHARACTER for line in lines) + 2 * _PADDING,
        labels * (len(arriving) + 1) / 2 if len(arriving) == 1 else labels * (len(arriving) + 1),
    )
    box = Box(width, len(lines) * _LINE + 2 * _PADDING - 4)
    return _Card(task, style, tuple(lines), "\n".join(tooltip), box)


def _style(node: OperatorNode) -> str | None:
    if isinstance(node.spec, SourceSpec):
        return "task source"
    return "task sink" if isinstance(node.spec, SinkSpec) else None


def _draw_card(card: _Card, corner: tuple[float, float]) -> str:
    x, y = corner
    parts = [
        f"<g><title>{escape(card.tooltip)}</title>",
        f'<rect class="{card.style}" x="{x:.1f}" y="{y:.1f}" width="{card.box.width:.1f}" '
        f'height="{card.box.height:.1f}" rx="5"/>',
    ]
    for number, line in enumerate(card.lines):
        text_x, text_y = x + _PADDING + line.indent, y + _PADDING + 8 + number * _LINE
        place = f'x="{text_x:.1f}" y="{text_y:.1f}"'
        parts.append(f'<text class="{line.style}" {place}>{escape(line.text)}</text>')
    return "".join(parts) + "</g>"


def _draw_edge(route: tuple[tuple[float, float], ...]) -> str:
    path = [f"M{_point(*route[0])}"]
    for (from_x, from_y), (to_x, to_y) in pairwise(route):
        middle = (from_y + to_y) / 2
        curve = f"C{_point(from_x, middle)} {_point(to_x, middle)} {_point(to_x, to_y)}"
        path.append(f"L{_point(to_x, to_y)}" if from_x == to_x else curve)
    return f'<path class="edge" d="{"".join(path)}" marker-end="url(#penstock-arrow)"/>'


def _draw_label(graph: ExecutionGraph, edge: Edge, route: tuple[tuple[float, float], ...]) -> str:
    x, y = route[-1]
    text = escape(edge_text(graph, edge))
    return f'<text class="label" text-anchor="middle" x="{x:.1f}" y="{y - 14:.1f}">{text}</text>'


def _point(x: float, y: float) -> str:
    return f"{x:.1f} {y:.1f}"


def _cut(text: str) -> str:
    return text if len(text) <= CUT_CHARACTERS else text[: CUT_CHARACTERS - 1] + "…"
