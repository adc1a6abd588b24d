"""The words that options take, as types, so that an editor lists them and a type checker knows a misspelt one.

Whoever takes a word checks it as well, and names the valid ones: not every user has a type checker.
"""

from typing import Literal

OnError = Literal["dead_letter", "skip", "fail"]
"""What happens to a record that cannot be read or processed."""

How = Literal["inner", "left", "right", "full"]
"""Which rows without a partner a join keeps."""

OneSided = Literal["inner", "left"]
"""Which rows without a partner a join keeps that only ever asks for the rows of one side."""

Cardinality = Literal["m:m", "1:m", "m:1", "1:1"]
"""How many rows of a key either side of a join may have: one, or many."""

WriteMode = Literal["append", "changelog", "upsert"]
"""How a sink gets an updating stream; ``append`` is for those that take no row back."""

Guarantee = Literal["at_least_once", "exactly_once"]
"""How often a message appears in a topic after failures."""

BatchFormat = Literal["pyarrow", "polars", "pandas", "numpy"]
"""What `map_batches` gives to its function."""

MessageFormat = Literal["json", "raw", "avro", "protobuf", "arrow"]
"""What messages of a topic are made of."""

Tombstones = Literal["skip", "keep"]
"""What happens to messages without a value."""

Ordered = Literal["event", "arrival"]
"""Whether rows of a key are taken by event time, or as they come."""

Keep = Literal["first", "last"]
"""Which row of a key `deduplicate` keeps."""

TimeBasis = Literal["event", "processing"]
"""Which time a window, or a time to live, goes by."""

EmissionMode = Literal["final", "updates"]
"""When results of a window leave: once, when it is over, or whenever they change."""
