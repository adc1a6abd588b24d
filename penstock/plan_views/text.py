"""Draws a physical plan as text: a tree for the terminal and Mermaid for Markdown pages."""

import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.operators.descriptions import Words
from penstock.model.execution_graph import Edge, ExecutionGraph
from penstock.model.ids import OperatorId, TaskId
from penstock.model.job_graph import MAIN, OperatorNode
from penstock.plan_views.words import (
    chain,
    display_name,
    edge_text,
    legend,
    side_output,
    summary,
    task_text,
    words,
)

if TYPE_CHECKING:
    from penstock.dsl.job import Job

WIDTH = 110
"""Longer lines of a tree are wrapped."""

LABEL_WIDTH = 64
"""Longer lines in a Mermaid box are cut."""

_MERMAID_ENTITIES = str.maketrans(
    {"#": "#35;", "&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;", "\\": "#92;"}
)


def explain(plan: "ExecutionGraph | Job | None" = None) -> str:
    """Return a physical plan, or that of a job (default: the default job), as a tree.

    What hangs below an operator reads its output: ``├─`` is a call inside a task, ``╞═`` a channel
    to another task, with the exchange it uses.

    Raises:
        PlanError: the job has no sink.
    """
    if isinstance(plan, ExecutionGraph):
        graph = plan
    else:
        from penstock.dsl.job import default_job

        graph = (plan or default_job()).plan()
    lines = [f"plan: {summary(graph)}"]
    if legend(graph):
        lines.append(legend(graph))
    forest = _Forest(graph)
    for task in graph.tasks:
        if not graph.incoming(task.head):
            branch = forest.grow(task.head, f"{task_text(task)}: ")
            lines += ["", *_render(branch, "", "")]
    return "\n".join(lines) + "\n"


def mermaid(graph: ExecutionGraph) -> str:
    """Return a physical plan as a Mermaid flowchart, one subgraph a task."""
    ids = {operator: f"n{index}" for index, operator in enumerate(graph.graph.operators)}
    described = words(graph)
    lines = ["flowchart TB"]
    for task in graph.tasks:
        lines.append(f'    subgraph t{task.id}["{_escape(task_text(task))}"]')
        lines += [f'        {ids[node.id]}["{_label(node, described[node.id])}"]' for node, _ in chain(graph, task)]
        for edge in graph.edges:
            if edge.chained and edge.consumer in task.operators:
                label = "" if edge.output == MAIN else f'|"{_escape(edge.output)}"|'
                lines.append(f"        {ids[edge.producer]} -->{label} {ids[edge.consumer]}")
        lines.append("    end")
    for edge in graph.edges:
        if not edge.chained:
            text = _escape(edge_text(graph, edge))
            lines.append(f'    {ids[edge.producer]} ==>|"{text}"| {ids[edge.consumer]}')
    return "\n".join(lines) + "\n"


@dataclass
class _Branch:
    """An operator as text, with what reads its output."""

    headline: str
    details: tuple[tuple[str, str], ...] = ()
    exchanged: bool = False
    children: list["_Branch"] = field(default_factory=list)


class _Forest:
    """Grows one tree a source; a task with several inputs hangs where the last of them is met."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph
        self._words = words(graph)
        self._awaited: dict[TaskId, int] = {}

    def grow(self, operator: OperatorId, lead: str = "", exchanged: bool = False) -> _Branch:
        node = self._graph.node(operator)
        described = self._words[operator]
        headline = f"{lead}{display_name(node)}  {described.headline}"
        children = [self._child(edge) for edge in self._graph.outgoing(operator)]
        return _Branch(headline, described.details, exchanged, children)

    def _child(self, edge: Edge) -> _Branch:
        if edge.chained:
            return self.grow(edge.consumer, side_output(self._graph, edge.consumer))
        task = self._graph.task_of(edge.consumer)
        inputs = len(self._graph.incoming(edge.consumer))
        self._awaited[task.id] = self._awaited.get(task.id, inputs) - 1
        lead = f"{edge_text(self._graph, edge)} ═▶ {task_text(task)}: "
        if self._awaited[task.id]:
            name = display_name(self._graph.node(edge.consumer))
            return _Branch(f"{lead}{name} (drawn below)", exchanged=True)
        return self.grow(edge.consumer, lead, exchanged=True)


def _render(branch: _Branch, connector: str, continuation: str) -> list[str]:
    """Return a branch as lines, the first after ``connector``, others after ``continuation``."""
    beneath = continuation + ("│" if branch.children else " ")
    lines = _wrapped(branch.headline, connector, beneath + "       ")
    label_width = max((len(label) for label, _ in branch.details), default=0)
    for label, text in branch.details:
        lead = f"{beneath}   {label:<{label_width}}  "
        lines += _wrapped(text, lead, beneath + " " * (len(lead) - len(beneath)))
    for index, child in enumerate(branch.children):
        last = index == len(branch.children) - 1
        corner = ("╘═ " if last else "╞═ ") if child.exchanged else ("└─ " if last else "├─ ")
        lines += _render(child, continuation + corner, continuation + ("   " if last else "│  "))
    return lines


def _wrapped(text: str, first: str, following: str) -> list[str]:
    return textwrap.wrap(
        text,
        max(WIDTH, len(following) + 40),
        initial_indent=first,
        subsequent_indent=following,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _label(node: OperatorNode, described: Words) -> str:
    lines = [described.headline, *(f"{label}: {text}" for label, text in described.details)]
    cut = (_escape(textwrap.shorten(line, LABEL_WIDTH, placeholder=" …")) for line in lines)
    return "<br/>".join([f"<b>{_escape(display_name(node))}</b>", *cut])


def _escape(text: str) -> str:
    return text.translate(_MERMAID_ENTITIES)
