"""Hidden columns of a replay by which rows are weighted and counted, from sources through stateless operators to sinks.

They stand behind the columns that users know, beside those of `result_columns`.
"""

import pyarrow as pa

from penstock.model.result_columns import ACCURACY, BIASED, DRAW, certified_of, high_of, low_of

KEEP = "$keep"
"""double: the keep rate that held for a row, in (0, 1]; 0: the row was shed."""

EXPECTED, USED = "$rows_expected", "$rows_used"
"""bigint: source rows that went into a result, and those of them that were kept."""

DRAW_FIELD = pa.field(DRAW, pa.int16())
"""The step that the record of a row has drawn, of sources with strata."""

KEEP_FIELDS = pa.schema([pa.field(KEEP, pa.float64())])
COUNT_FIELDS = pa.schema([pa.field(EXPECTED, pa.int64()), pa.field(USED, pa.int64())])
QUALITY_FIELDS = pa.schema([pa.field(ACCURACY, pa.float64()), pa.field(BIASED, pa.bool_())])

_OF_ROWS = (KEEP, DRAW, EXPECTED, USED, ACCURACY, BIASED)


def passed_on(hidden: pa.Schema, renamed: dict[str, str]) -> dict[str, str]:
    """Return hidden columns behind a projection, by what they were; ``renamed`` has new names by old of plain columns.

    What is said of a column goes where the column goes, and is lost where it is computed with.
    """
    columns = {name: name for name in hidden.names if name in _OF_ROWS}
    for old, new in renamed.items():
        columns |= {of(new): of(old) for of in (low_of, high_of, certified_of) if of(old) in hidden.names}
    return columns
