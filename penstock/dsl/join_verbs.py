"""The verbs that bring streams together; `Stream` inherits them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.dsl.arguments import refusal, shown, windowing
from penstock.dsl.job import located
from penstock.dsl.join_columns import Columns, KeyMatch, asof_join_spec, interval_join_spec, join_spec, lookup_spec
from penstock.model.durations import Duration
from penstock.model.errors import PlanError
from penstock.model.expressions import Expr
from penstock.model.job_graph import OperatorSpec
from penstock.model.lookup_tables import LookupTable
from penstock.model.option_literals import Cardinality, How, OneSided
from penstock.model.schema import StreamSchema
from penstock.model.source_location import user_location
from penstock.model.windows import Window, Windowing

if TYPE_CHECKING:
    from penstock.dsl.stream import Stream


class Joins(ABC):
    """Joins with other streams and with side tables. Null keys never match."""

    @property
    @abstractmethod
    def _schema(self) -> StreamSchema: ...

    @abstractmethod
    def _add(self, spec: OperatorSpec, kind: str, *others: "Stream") -> "Stream":
        """Append an operator that reads this stream, then the others."""

    def join(
        self,
        other: "Stream",
        on: Columns = None,
        *,
        left_on: Columns = None,
        right_on: Columns = None,
        how: How = "inner",
        window: Windowing | Window | None = None,
        suffix: str = "_right",
        validate: Cardinality = "m:m",
    ) -> "Stream":
        """Join on equal keys, within a window or, without one, for ever.

        ``how`` is ``inner``, ``left``, ``right`` or ``full``; the last three put out rows without a partner too, with
        nulls, and take that back when one comes: their result is updating. So is a join of updating streams. Within a
        window both sides must be append-only and ``how`` is inner.

        The result has the columns of this stream, then those of the other one without keys of the same name; a name
        that both have gets ``suffix`` on the right. With a window, ``window_start`` and ``window_end`` are added
        unless a side has such columns.

        ``validate="m:1"`` says that a key comes once on the right (``1:m``: on the left, ``1:1``: on both). Rows of the
        other side are then let go as soon as they have met their partner, so that little is kept; a row whose key has
        come before is a dead letter. For inner joins of append-only streams.
        """
        check_streams("join", (other,))
        chosen = None if window is None else windowing(window, "join")
        spec = _located(
            lambda: join_spec(
                self._schema, other._schema, KeyMatch(on, left_on, right_on), chosen, suffix, how, validate
            )
        )
        return self._add(spec, "join", other)

    def interval_join(
        self,
        other: "Stream",
        on: Columns = None,
        *,
        between: tuple[Duration, Duration | Expr],
        left_on: Columns = None,
        right_on: Columns = None,
        how: How = "inner",
        suffix: str = "_right",
    ) -> "Stream":
        """Join rows with equal keys whose event times are close; both sides must be append-only.

        ``between=("-5m", "10m")`` matches what came from 5 minutes before to 10 minutes after this stream's row, bounds
        included; the upper bound may be a timestamp expression over this stream's columns: ``between=("0s",
        col("expires"))``. ``how`` as in `join`; a row without a partner leaves once none can come any more, so the
        result is append-only.
        """
        check_streams("interval_join", (other,))
        spec = _located(
            lambda: interval_join_spec(
                self._schema, other._schema, KeyMatch(on, left_on, right_on), between, suffix, how
            )
        )
        return self._add(spec, "interval_join", other)

    def asof_join(
        self,
        other: "Stream",
        on: Columns = None,
        *,
        left_on: Columns = None,
        right_on: Columns = None,
        tolerance: Duration | None = None,
        how: OneSided = "left",
        suffix: str = "_right",
    ) -> "Stream":
        """Join every row with the other stream's last row of the same key that is not newer.

        ``tolerance`` is how much older that may be. ``how="inner"`` drops rows without one. A row leaves once the
        watermark of both sides has passed it. Several right rows of one time: the greatest by its columns.
        """
        check_streams("asof_join", (other,))
        spec = _located(
            lambda: asof_join_spec(self._schema, other._schema, KeyMatch(on, left_on, right_on), tolerance, suffix, how)
        )
        return self._add(spec, "asof_join", other)

    def lookup(
        self,
        table: LookupTable,
        on: Columns = None,
        *,
        left_on: Columns = None,
        right_on: Columns = None,
        how: OneSided = "inner",
        suffix: str = "_right",
    ) -> "Stream":
        """Join every row with the rows of a side table, as it is when the row comes; see `lookup_table`.

        ``how="left"`` keeps rows without a partner, with nulls.
        """
        if not isinstance(table, LookupTable):
            raise refusal(f'lookup() takes a lookup table, not {shown(table)}; write lookup_table("codes.csv")')
        spec = _located(lambda: lookup_spec(self._schema, table, KeyMatch(on, left_on, right_on), suffix, how))
        return self._add(spec, "lookup")


def join(*streams: "Stream", on: Columns, how: How = "inner", suffix: str = "_right") -> "Stream":
    """Join two streams or more on columns that all of them have, from left to right: ``join(a, b, c, on="item")``.

    ``how`` is ``inner`` or ``left``, which keeps the rows of the first stream, or, with two streams, any of
    `Stream.join`. Columns that several streams have get ``suffix`` from the second stream on, with a number from the
    third on: ``price, price_right, price_right2``. Rows stay where their key lies from one join to the next.
    """
    check_streams("join", streams)
    if len(streams) < 2:
        raise refusal(f'join() takes two streams or more, not {len(streams)}; write join(a, b, c, on="item")')
    if len(streams) > 2 and how in ("right", "full"):
        raise refusal(
            f"join(how={how!r}) takes two streams, for a third would meet the keys of one only; join them one by one"
        )
    joined = streams[0]
    for number, other in enumerate(streams[1:], 1):
        joined = joined.join(other, on, how=how, suffix=suffix if number == 1 else f"{suffix}{number}")
    return joined


def check_streams(verb: str, others: Sequence[object]) -> None:
    """Check that a verb was given streams.

    Raises:
        PlanError: one is something else.
    """
    from penstock.dsl.stream import Stream

    for other in others:
        if not isinstance(other, Stream):
            write = "union(other)" if verb == "union" else f'{verb}(other, on="item")'
            grouped = type(other).__name__ in ("KeyedStream", "WindowedStream", "OverStream")
            what = "a grouped stream without agg()" if grouped else shown(other)
            raise refusal(f"{verb}() takes streams, not {what}; write {write} with a stream of the same job")


def _located(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except PlanError as error:
        raise located(error, user_location()) from None
