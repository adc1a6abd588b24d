"""The words that options accept, as types, so that editors list them and type checkers reject misspelt ones.

Functions that take a word check it too, and name the valid ones: not every user has a type checker.
"""

from typing import Literal

OnError = Literal["dead_letter", "skip", "fail"]
"""The treatment of a record that cannot be read or processed."""

How = Literal["inner", "left", "right", "full"]
"""The sides whose rows a join keeps even without a partner."""

OneSided = Literal["inner", "left"]
"""The rows that a join driven by its left side keeps."""

Cardinality = Literal["m:m", "1:m", "m:1", "1:1"]
"""The number of rows of a key on either side of a join: one or many."""

WriteMode = Literal["append", "changelog", "upsert"]
"""The form in which a sink receives an updating stream; ``append`` is for streams without retractions."""

Guarantee = Literal["at_least_once", "exactly_once"]
"""The delivery guarantee of a topic after failures."""

BatchFormat = Literal["pyarrow", "polars", "pandas", "numpy"]
"""The type of the batches that `map_batches` passes to its function."""

MessageFormat = Literal["json", "raw", "avro", "protobuf", "arrow"]
"""The encoding of a topic's messages."""

Tombstones = Literal["skip", "keep"]
"""The treatment of messages without a value."""

Ordered = Literal["event", "arrival"]
"""The order in which rows of a key are processed: by event time or by arrival."""

Keep = Literal["first", "last"]
"""The row of a key that `deduplicate` keeps."""

TimeBasis = Literal["event", "processing"]
"""The time that a window or a time to live follows."""

EmissionMode = Literal["final", "updates"]
"""The emission of a window's results: once, when it is over, or whenever they change."""
