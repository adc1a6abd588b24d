"""Dead letters: the output they leave an operator through, and their columns."""

import pyarrow as pa

DEAD_LETTER = "dead_letter"
"""The output of records that could not be read or processed; sinks and unions have none."""

LETTER_FIELDS = pa.schema(
    [
        pa.field("operator", pa.string(), nullable=False),
        pa.field("position", pa.string(), nullable=False),
        pa.field("error", pa.string(), nullable=False),
        pa.field("traceback", pa.string()),
        pa.field("text", pa.string()),
        pa.field("raw_base64", pa.string(), nullable=False),
    ]
)
"""A dead letter: ``text`` is the record if it is UTF-8, ``raw_base64`` its bytes; a row is kept as a JSON object.

``position`` is where a source found the record, for example ``file:line``; empty for rows of other operators.
"""
