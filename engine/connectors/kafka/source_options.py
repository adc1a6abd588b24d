"""Options of the Kafka source: the columns that messages become, and the bounds of reading."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from penstock.engine.connectors.kafka.formats.contract import ValueDecoder
from penstock.engine.connectors.kafka.messages import METADATA
from penstock.engine.connectors.kafka.rows import RowMaker
from penstock.engine.connectors.kafka.topic_places import EARLIEST, Where
from penstock.model.errors import OptionError, SchemaError
from penstock.model.option_literals import Tombstones

TOMBSTONES = get_args(Tombstones)


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """The columns of the value, then of the key, then of ``metadata``: columns by what of `METADATA` they tell.

    ``tombstones``: messages without a value are counted and skipped, or kept as rows whose value is null.
    """

    value: ValueDecoder
    key: ValueDecoder | None = None
    metadata: Mapping[str, str] | None = None
    tombstones: str = "skip"

    def maker(self) -> RowMaker:
        """Return what makes rows of messages.

        Raises:
            OptionError: an option has an impossible value.
            SchemaError: two columns have the same name.
        """
        asked = dict(self.metadata or {})
        unknown = [what for what in asked if what not in METADATA]
        if unknown:
            raise OptionError(f"metadata= knows {', '.join(METADATA)}, but not {unknown[0]!r}")
        if self.tombstones not in TOMBSTONES:
            raise OptionError(f"tombstones must be one of {', '.join(TOMBSTONES)}, not {self.tombstones!r}")
        of_key = self.key.schema.names if self.key is not None else ()
        columns = [*self.value.schema.names, *of_key, *asked.values()]
        repeated = sorted({name for name in columns if columns.count(name) > 1})
        if repeated:
            raise SchemaError(f"column {repeated[0]!r} comes twice, from value, key= or metadata=; rename one")
        return RowMaker(
            self.value,
            self.key,
            {name: what for what, name in asked.items()},
            tuple(columns),
            keep_tombstones=self.tombstones == "keep" or "tombstone" in asked,
        )


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """The start of a job without a checkpoint and the end of a run; with ``until`` the source is bounded.

    Partitions that come later are found every ``discovery_us``; None: never.
    """

    start: Where = EARLIEST
    until: Where | None = None
    discovery_us: int | None = 30_000_000


EVERYTHING = ReadBounds()
