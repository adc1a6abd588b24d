"""A validation as a table on the terminal. `validate` prints it; it imports rich, so it is imported late."""

from __future__ import annotations

import sys
from typing import TextIO

from penstock.replay.report_wording import corrected, grades, left_out, verdict, windows_that_differ
from penstock.replay.validation_result import ComparisonStatus, QueryValidation, Validation
from penstock.tables import Column, count_text, print_table

_COLUMNS = (
    Column("query", figures=False),
    *(Column(title) for title in ("rows", "missing", "extra", "different", "windows that differ")),
    Column("verdict", figures=False),
)
_CORRECTED = Column("corrected")


def summary_table(validation: Validation, stream: TextIO | None = None) -> None:
    """Print a row a query, why queries were not compared, and the verdict (default: to stderr).

    ``rows`` are those of the exact answer; ``corrected`` is there if rows were to be.
    """
    rows = []
    correcting = any(query.correction is not None for query in validation.queries)
    for query in validation.queries:
        counts = (query.rows_exact, query.missing, query.extra, query.different)
        compared = query.status is not ComparisonStatus.NOT_COMPARED
        cells = [count_text(count) if compared else "" for count in counts]
        windows = windows_that_differ(query) if compared and query.windows else ""
        row = [query.query, *cells, windows, query.status]
        rows.append([*row, _corrected(query)] if correcting else row)
    if rows:
        print_table([*_COLUMNS, _CORRECTED] if correcting else _COLUMNS, rows, stream=stream)
    lines = [f"not compared: {query.query}: {query.why}" for query in validation.queries if query.why is not None]
    lines += [f"{query.query}: {note}" for query in validation.queries for note in (*grades(query), *query.notes)]
    lines += [
        f"not corrected: {query.query}: {query.correction.why}"
        for query in validation.queries
        if query.correction is not None and query.correction.why is not None
    ]
    lines += [
        f"{query.query}: {corrected(query)}"
        for query in validation.queries
        if query.correction is not None and (query.correction.open or query.correction.left)
    ]
    print(*lines, verdict(validation), *left_out(validation), sep="\n", file=stream or sys.stderr)


def _corrected(query: QueryValidation) -> str:
    return "" if query.correction is None or query.correction.why else count_text(query.correction.rows)
