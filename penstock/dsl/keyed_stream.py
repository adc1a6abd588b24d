"""Streams grouped by key or window: what `Stream.key_by` and `Stream.window` return."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.dsl.arguments import Order, check_function, orderings, windowing
from penstock.dsl.arguments import aggregates as checked_aggregates
from penstock.dsl.process import process_spec
from penstock.model import name_hints
from penstock.model.aggregates import AggregateCall
from penstock.model.config import check_count
from penstock.model.durations import Duration, to_microseconds
from penstock.model.errors import OptionError
from penstock.model.expressions import Expr, Ordering
from penstock.model.job_graph import AggregateSpec, ReduceSpec
from penstock.model.keyed_specs import FirstSpec, OverSpec, TopSpec
from penstock.model.name_hints import NameHints
from penstock.model.option_literals import EmissionMode, Keep, OnError, Ordered
from penstock.model.schema import Fields
from penstock.model.windows import Emission, Window, Windowing

if TYPE_CHECKING:
    from penstock.dsl.stream import Stream


class KeyedStream(NameHints):
    """A stream grouped by key; aggregate it, reduce it or put it into windows."""

    _hints = name_hints.KEYED
    _noun = "a grouped stream"

    def __init__(self, stream: "Stream", keys: tuple[tuple[str, Expr], ...], emission: Emission | None = None) -> None:
        """Remember the keys; see `Stream.key_by`."""
        self._stream = stream
        self._keys = keys
        self._emission = emission or Emission("updates")

    def window(self, window: Windowing | Window) -> "WindowedStream":
        """Group each key's rows by a window."""
        return WindowedStream(self._stream, self._keys, windowing(window))

    def emit(self, *, every: Duration) -> "KeyedStream":
        """Emit changes at most once per ``every`` of processing time; 0: after every batch.

        Without it the job's ``emit_interval`` counts, 100 ms unless `run` was given another one.
        """
        return KeyedStream(self._stream, self._keys, Emission("updates", to_microseconds(every, "every")))

    def agg(self, **aggregates: AggregateCall) -> "Stream":
        """Aggregate each key; the result is updating. Without aggregates: the distinct keys."""
        spec = AggregateSpec(self._keys, checked_aggregates(aggregates), None, self._emission)
        return self._stream._add(spec, "agg")

    def reduce(self, function: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]) -> "Stream":
        """Fold each key's rows in event-time order with a function of two rows; the result is updating."""
        check_function("reduce", function)
        return self._stream._add(ReduceSpec(self._keys, function, None, self._emission), "reduce")

    def top(self, rows: int, by: Order | Sequence[Order], *, rank: str | None = None) -> "Stream":
        """Keep the first rows of each key by an order; the result is updating.

        ``by`` is a column or expression, or several: ``by=[col("price").desc(), "time"]``. Nulls come last. Rows equal
        in all of it are ordered by their columns, left to right. ``rank="place"`` adds a column that counts from 1.

        Raises:
            OptionError: ``rows`` is below 1.
        """
        check_count("rows", rows)
        spec = TopSpec(self._keys, rows, orderings("top", by), rank, interval_us=self._emission.interval_us)
        return self._stream._add(spec, "top")

    def deduplicate(self, keep: Keep = "first", *, order: Ordered = "event", ttl: Duration | None = None) -> "Stream":
        """Keep one row of each key: the ``"first"`` or the ``"last"`` by event time, ties by the rows' columns.

        The first row leaves once the watermark has passed it, or at once with ``order="arrival"``; the result is
        append-only. With ``ttl`` a key counts as new again that long after its first row. The last row is updating.

        Raises:
            OptionError: an option has no such value.
        """
        if keep not in ("first", "last"):
            raise OptionError(f"deduplicate(keep=...) is 'first' or 'last', not {keep!r}")
        if order not in ("event", "arrival"):
            raise OptionError(f"deduplicate(order=...) is 'event' or 'arrival', not {order!r}")
        if keep == "first":
            ttl_us = None if ttl is None else to_microseconds(ttl, "ttl")
            return self._stream._add(FirstSpec(self._keys, order == "arrival", ttl_us), "deduplicate")
        if ttl is not None or order != "event":
            raise OptionError("deduplicate(keep='last') takes neither ttl nor order: it always shows the newest row")
        newest = Ordering(self._stream._time("deduplicate(keep='last')"), descending=True)
        spec = TopSpec(self._keys, 1, (newest,), None, True, self._emission.interval_us)
        return self._stream._add(spec, "deduplicate")

    def over(self, rows: int | None = None, *, by: Order | Sequence[Order] | None = None) -> "OverStream":
        """Look, at every row, at the last ``rows`` rows of its key up to and with itself; None: at all of them.

        Rows come in the order of event time, or of ``by`` (as in `top`), which an updating stream needs.

        Raises:
            OptionError: ``rows`` is below 1.
        """
        if rows is not None:
            check_count("rows", rows)
        order = () if by is None else orderings("over", by)
        return OverStream(self._stream, OverSpec(self._keys, (), rows, self._emission.interval_us, order))

    def process(
        self,
        function: Any,
        schema: Fields | None = None,
        *,
        state: Mapping[str, Any] | None = None,
        order: Ordered = "event",
        on_error: OnError = "dead_letter",
    ) -> "Stream":
        """Call a process function, which has state and timers per key; see `Process` and `BatchProcess`.

        ``function`` is a subclass of one of these, an instance, or a function of (row, context) with its ``state``
        declared here. Rows of a key come in event-time order once the watermark has passed them, timers between them;
        ``order="arrival"`` gives that up for latency. ``schema`` describes what it puts out; without it, the return
        annotation if that is a dataclass, else the stream's own.

        Raises:
            PlanError: it is no process function, or its state cannot be declared.
        """
        spec = process_spec(self._keys, self._stream.schema, function, schema, state, order, on_error)
        return self._stream._add(spec, "process")


class WindowedStream(NameHints):
    """A stream grouped by window, and by key if it has one."""

    _hints = name_hints.KEYED
    _noun = "a grouped stream"

    def __init__(self, stream: "Stream", keys: tuple[tuple[str, Expr], ...], windowing: Windowing) -> None:
        """Remember keys and window; see `KeyedStream.window`."""
        self._stream = stream
        self._keys = keys
        self._windowing = windowing

    def emit(self, mode: EmissionMode = "updates", *, every: Duration | None = None) -> "WindowedStream":
        """Choose when results leave: ``"final"`` (default), ``"updates"``, or ``every="1s"`` of processing time.

        Updates leave as often as the job's ``emit_interval`` says, every 100 ms unless `run` was given another one.
        """
        emission = Emission(mode) if every is None else Emission("updates", to_microseconds(every, "every"))
        return WindowedStream(self._stream, self._keys, replace(self._windowing, emission=emission))

    def allowed_lateness(self, lateness: Duration) -> "WindowedStream":
        """Let each window take rows for this long after its end."""
        lateness_us = to_microseconds(lateness, "lateness")
        return WindowedStream(self._stream, self._keys, replace(self._windowing, lateness_us=lateness_us))

    def agg(self, **aggregates: AggregateCall) -> "Stream":
        """Aggregate each window (and key); rows have ``window_start`` and ``window_end``."""
        spec = AggregateSpec(self._keys, checked_aggregates(aggregates), self._windowing, self._windowing.emission)
        return self._stream._add(spec, "agg")

    def reduce(self, function: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]) -> "Stream":
        """Fold the rows of each window (and key) in event-time order with a function of two rows."""
        check_function("reduce", function)
        spec = ReduceSpec(self._keys, function, self._windowing, self._windowing.emission)
        return self._stream._add(spec, "reduce")


class OverStream(NameHints):
    """A stream grouped by key whose rows look back at the rows before them."""

    _hints = name_hints.KEYED
    _noun = "a grouped stream"

    def __init__(self, stream: "Stream", spec: OverSpec) -> None:
        """Remember keys, frame and order; see `KeyedStream.over`."""
        self._stream = stream
        self._spec = spec

    def agg(self, **aggregates: AggregateCall) -> "Stream":
        """Add aggregates over its frame to every row, which leaves once the watermark has passed it.

        With an order of its own (``by``) and on an updating stream the result is updating: rows that come between
        others correct what these showed.
        """
        return self._stream._add(replace(self._spec, aggregates=checked_aggregates(aggregates)), "over")
