"""The first rows of a stream, for notebooks and the prompt: what `Stream.preview` returns, and the job behind it."""

import html
import io
import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from penstock.dsl.job import Job
from penstock.dsl.pictures import graph_up_to
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.connectors.local.table_rows import table_rows
from penstock.engine.executors.embedded import EmbeddedJob, EmbeddedOptions
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.bad_records import BadRecordsLine
from penstock.engine.plan.planner import plan
from penstock.model.coercion import is_number
from penstock.model.config import LoopOptions
from penstock.model.ids import OperatorId
from penstock.runs.compilation_notice import announce_compilation

BATCH_ROWS = 8_192
"""Rows of a batch in a preview: few, so that a source is not read far beyond what is shown."""

_CELL_WIDTH = 60


class Preview:
    """Some rows of a stream. It shows itself as a table; any library that reads Arrow takes it as it is."""

    def __init__(
        self, table: pa.Table, complete: bool, updating: bool, bad_records: Sequence[BadRecordsLine] = ()
    ) -> None:
        """Hold the rows; ``complete`` says that the stream had no more, ``bad_records`` what could not be processed."""
        self._table = table
        self._whole = complete
        self._updating = updating
        self._bad_records = tuple(bad_records)

    def table(self) -> pa.Table:
        """Return the rows."""
        return self._table

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as dicts."""
        return table_rows(self._table)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """Return the rows as a text table."""
        from penstock.tables import Column, print_table

        columns = [Column(field.name, figures=is_number(field.type)) for field in self._table.schema]
        text = io.StringIO()
        print_table(columns, self._cells(), stream=text)
        return "\n".join([*(line.rstrip() for line in text.getvalue().strip("\n").splitlines()), *self._notes()])

    def _repr_html_(self) -> str:
        """Return the rows as an HTML table, for notebooks."""
        sides = ["right" if is_number(field.type) else "left" for field in self._table.schema]
        styles = [f"style='text-align:{side};white-space:nowrap'" for side in sides]
        heads = "".join(
            f"<th {style} title='{html.escape(str(field.type), quote=True)}'>{html.escape(field.name)}</th>"
            for style, field in zip(styles, self._table.schema, strict=True)
        )
        lines = "".join(f"<tr>{_html_cells(styles, cells)}</tr>" for cells in self._cells())
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
        notes = "".join(f"<p>{html.escape(note, quote=False)}</p>" for note in self._notes())
        return f"<div style='overflow-x:auto'>{table}</div>{notes}"

    def _cells(self) -> list[list[str]]:
        return [[_text(value) for value in row.values()] for row in self.rows()]

    def _notes(self) -> list[str]:
        return [self._note(), *(line.count() for line in self._bad_records)]

    def _note(self) -> str:
        count = len(self)
        rows_text = f"{count} row{'' if count == 1 else 's'}"
        what = "all there are" if self._whole else "more may follow"
        return f"{rows_text}, {what}{'; updating, as it stands now' if self._updating else ''}"


def preview(job: Job, operator: OperatorId, output: str, rows: int, timeout_s: float) -> Preview:
    """Run what leads to an output, apart from the job's own sinks, until ``rows`` rows have come or time is over."""
    announce_compilation()
    sink = _FirstRows(rows)
    graph = graph_up_to(job, operator, output, sink)
    updating = job.graph[operator].outputs[output].changelog
    with TemporaryDirectory(prefix="penstock-") as folder:
        options = LoopOptions(batch_rows=BATCH_ROWS)
        planned = plan(graph, 1)
        embedded = EmbeddedJob(JobPlan("preview", planned, options, Path(folder)), EmbeddedOptions(routed=False))
        sink.job = embedded
        timer = threading.Timer(timeout_s, sink.stop)
        timer.daemon = True
        timer.start()
        try:
            embedded.run()
        finally:
            timer.cancel()
    complete = not sink.stopped and sink.count <= rows
    return Preview(sink.table().slice(0, rows), complete, updating, embedded.metrics().bad_records)


class _FirstRows(MemorySink):
    """Stops the job once enough rows have come."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self._wanted = rows
        self.count = 0
        self.stopped = False
        self.job: EmbeddedJob | None = None

    def take(self, instance: int, rows: pa.RecordBatch) -> None:
        super().take(instance, rows)
        weighted = "weight" in rows.schema.names
        self.count += int(rows.column("weight").to_numpy().sum()) if weighted else rows.num_rows
        if self.count >= self._wanted:
            self.stop()

    def stop(self) -> None:
        """Stop the job, which may have ended already."""
        self.stopped = True
        if self.job is not None:
            self.job.stop()


def _html_cells(styles: list[str], cells: list[str]) -> str:
    return "".join(f"<td {style}>{html.escape(cell)}</td>" for style, cell in zip(styles, cells, strict=True))


def _text(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _CELL_WIDTH else f"{text[: _CELL_WIDTH - 3]}..."
