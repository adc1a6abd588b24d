"""The meaning of an operator's state, in words: kept in the manifest, so that a changed pipeline is noticed.

`engine.plan.state_meanings` writes it, `engine.restore.meaning_changes` compares two.
"""

import msgspec


class AggregateMeaning(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One aggregate: its output column, what it computes, and where it is kept.

    Columns of ``table`` that begin with ``a<place>.`` are its own; without a place it keeps nothing of its own. The
    numbers from ``weighted[0]`` to before ``weighted[1]`` of the table's vectors are its, if it has estimates.
    """

    name: str
    means: str
    table: str | None = None
    place: int | None = None
    weighted: tuple[int, int] | None = None


class OperatorMeaning(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The meaning of one operator's state.

    ``kind`` is the verb that made it. ``traits`` are what must stay, by what users call it: ``window`` is
    ``tumbling 20s``. ``states`` are those that a process function declares, by name. ``values`` are what the frames of
    `over` keep of each row, in order. ``keys`` are the names of the key's columns, which may change. ``sides`` are the
    sources that feed each side of a join, which may not swap. ``estimates``: accumulators have a weighted part.
    """

    kind: str
    traits: dict[str, str] = {}
    aggregates: tuple[AggregateMeaning, ...] = ()
    states: dict[str, str] = {}
    values: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    sides: tuple[tuple[str, ...], ...] = ()
    estimates: bool = False
