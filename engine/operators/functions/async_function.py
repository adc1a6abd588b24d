"""User coroutine functions: `map_async` asks for every row, many at a time, without ever blocking the worker loop."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

import numpy as np

from penstock.engine.core.async_calls import Asked, AsyncCalls, CallCounts
from penstock.engine.core.contract import MAIN, Emission, Notes, Operator, OperatorContext
from penstock.engine.core.elements import START_OF_TIME_US, Batch
from penstock.engine.core.event_time import kept_time
from penstock.engine.operators.descriptions import Words, error_details, function_name
from penstock.engine.operators.descriptor import OperatorDescriptor, Sampling, Wanted
from penstock.engine.operators.functions.call_backlog import CallBacklog
from penstock.engine.operators.functions.pending_calls import Call, Line, OrderedLine, UnorderedLine
from penstock.engine.operators.functions.row_results import RowResults
from penstock.engine.operators.functions.user_results import rows_without, time_errors
from penstock.model.durations import format_microseconds
from penstock.model.errors import PlanError
from penstock.model.job_graph import AsyncFunctionSpec, OperatorNode
from penstock.model.schema import StreamSchema

LOG = "unanswered"
"""The log of rows that have come and not left; they are asked for again after a restore."""


class AsyncFunction(Operator):
    """Calls the user's coroutine function once per row; a row whose last attempt fails becomes a dead letter.

    So does one whose result does not fit the schema or has no usable event time. At most ``capacity`` rows are between
    their call and leaving, so that a slow answer at the head of an ordered line holds up the calls behind it; the rest
    of a batch waits its turn. Rows count as folded until they leave, rows found by `open` as having come in.

    A call is given up when its time is over as seen from here, whether or not the coroutine heeds its cancellation, and
    an attempt that failed is followed by the next one at once.
    """

    def __init__(self, spec: AsyncFunctionSpec, schema: StreamSchema, name: str) -> None:
        """Take the spec; ``schema`` is the input's."""
        self._spec = spec
        self._input = schema.fields
        self._time = kept_time(schema, spec.fields)
        self._results = RowResults(spec.fields, bare=spec.columns is not None)
        self._backlog = CallBacklog(spec.columns, schema.fields.names)
        self._line: Line = OrderedLine() if spec.ordered else UnorderedLine()
        self._calls: AsyncCalls | None = None
        # By ticket, in the order of their deadlines.
        self._pending: dict[int, Call] = {}
        self._next_ticket = 0
        self._held = 0
        self._counts = CallCounts()
        # The last watermark that came, and the last that no row is in front of any more.
        self._latest_us = self._watermark_us = START_OF_TIME_US
        self._released_us: int | None = None

    def open(self, context: OperatorContext) -> None:
        """Find the rows that were not answered, and the watermark held back behind them; the first timer goes on."""
        super().open(context)
        self._watermark_us = context.earliest("passed_us", START_OF_TIME_US)
        self._latest_us = context.earliest("watermark_us", START_OF_TIME_US)
        self._calls = context.async_calls(self._spec.function, context.wake)
        self._log = context.state.log(LOG, self._input)
        ids = self._log.live()
        for start in range(0, ids.size, context.batch_rows):
            part = ids[start : start + context.batch_rows]
            self._take_in(Batch(self._log.take(part), ingest_ns=context.clock.monotonic_ns()), part)
        if self._latest_us > self._watermark_us:
            # Which rows came before it is not known: behind all of them it is late at worst.
            self._backlog.mark(self._latest_us)

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Keep the rows and ask for as many as there is capacity for."""
        self._take_in(batch, self._log.append(batch.rows))
        self._ask()
        return ()

    def has_room(self) -> bool:
        """Return whether all rows that came are asked for."""
        return not self._backlog

    def unanswered(self) -> bool:
        """Return whether rows, or watermarks behind them, have not left."""
        return bool(self._line) or bool(self._backlog)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Keep the watermark behind the rows in front of it."""
        self._latest_us = time_us
        if self._backlog:
            self._backlog.mark(time_us)
        elif self._line:
            self._line.mark(time_us)
        else:
            self._watermark_us = time_us
        return ()

    def output_watermark(self, time_us: int) -> int:
        """Return the last watermark that no row is in front of any more."""
        return self._watermark_us

    def released_watermark(self) -> int | None:
        """Return the watermark behind the rows that `on_timer` let go."""
        released, self._released_us = self._released_us, None
        return released

    def notes(self) -> Notes:
        """Return the last watermark that came and the last that was passed on: less while rows are in front of it."""
        return {"watermark_us": self._latest_us, "passed_us": self._watermark_us}

    def due_us(self) -> int | None:
        """Return the start of time while rows are on their way, as every watermark takes its place behind them."""
        return START_OF_TIME_US if self.unanswered() else None

    def call_counts(self) -> CallCounts:
        """Return how many attempts are over, and how long they took."""
        return self._counts

    def timer_ns(self) -> int | None:
        """Return 0 when answers are there or rows can be asked for, else when the next call has taken too long."""
        if self._calls is None:
            return None
        can_ask = bool(self._backlog) and self._held < self._spec.capacity
        if can_ask or self._calls.ready() or self._line.can_leave():
            return 0
        return self._pending[next(iter(self._pending))].deadline_ns if self._pending else None

    def on_timer(self, now_ns: int) -> Iterator[Emission]:
        """Take answers, give up what took too long, and let go of rows up to the next watermark."""
        assert self._calls is not None
        ended = []
        for ticket, result, error in self._calls.completed():
            call = self._pending.pop(ticket, None)
            if call is not None:
                call.result, call.error = result, error
                self._counts.add(self._waited_ns(call, now_ns), failed=error is not None)
                ended.append(call)
        self._settle(ended + self._given_up(now_ns))
        self._ask()
        while calls := self._line.leave(self.context.batch_rows):
            self._held -= len(calls)
            # The next calls are under way while those that leave are converted.
            self._ask()
            yield from self._emit(calls)
        passed_us = self._line.passed()
        if passed_us is not None:
            self._watermark_us = self._released_us = passed_us

    def close(self) -> None:
        """Cancel what is under way and end the I/O thread."""
        if self._calls is not None:
            self._calls.stop()

    def _take_in(self, batch: Batch, ids: np.ndarray) -> None:
        self.context.counters.rows_in += batch.rows.num_rows
        self.context.counters.folded += batch.rows.num_rows
        self._backlog.add(batch, ids)

    def _ask(self) -> None:
        """Begin calls as far as there is capacity."""
        calls: list[Call] = []
        while (taken := self._backlog.take(self._spec.capacity - self._held)) is not None:
            if isinstance(taken, int):
                self._line.mark(taken)
                continue
            self._held += len(taken)
            self._line.add(taken)
            calls += taken
        self._submit(calls)

    def _submit(self, calls: list[Call]) -> None:
        """Make an attempt for each of these calls that is not answered."""
        if not calls:
            return
        deadline_ns = self.context.clock.monotonic_ns() + self._spec.timeout_us * 1_000
        requests: list[Asked] = []
        for call in calls:
            if call.answered:
                continue
            call.attempts += 1
            call.deadline_ns = deadline_ns
            self._pending[self._next_ticket] = call
            requests.append((self._next_ticket, call.arguments))
            self._next_ticket += 1
        if requests:
            assert self._calls is not None
            self._calls.submit(requests)

    def _waited_ns(self, call: Call, now_ns: int) -> int:
        """Return how long ago the last attempt of a call began."""
        return now_ns - (call.deadline_ns - self._spec.timeout_us * 1_000)

    def _given_up(self, now_ns: int) -> list[Call]:
        """Cancel the calls that have taken too long and return them."""
        late = []
        for ticket, call in self._pending.items():
            if call.deadline_ns > now_ns:
                break
            late.append(ticket)
        if not late:
            return []
        assert self._calls is not None
        self._calls.cancel(late)
        calls = [self._pending.pop(ticket) for ticket in late]
        for call in calls:
            self._counts.add(self._waited_ns(call, now_ns), failed=True)
            call.error = f"no answer within {format_microseconds(self._spec.timeout_us)}"
            if call.attempts > 1:
                call.error += f", the last of {call.attempts} attempts"
        return calls

    def _settle(self, calls: list[Call]) -> None:
        """Take what attempts came to: answers, and errors that may be followed by another attempt."""
        again = []
        for call in calls:
            if call.error is not None and call.attempts <= self._spec.retries:
                call.error = None
                again.append(call)
            else:
                call.answered = True
                self._line.answered(call)
        self._submit(again)

    def _emit(self, calls: list[Call]) -> Iterator[Emission]:
        """Turn answers into rows of the output, and errors into dead letters."""
        failed = {index: call.error for index, call in enumerate(calls) if call.error is not None}
        good = [index for index, call in enumerate(calls) if call.error is None] if failed else range(len(calls))
        rows, kept, unfit = self._results.to_rows([calls[index].result for index in good])
        failed |= {good[index]: reason for index, reason in unfit.items()}
        bad = time_errors(rows, self._time)
        failed |= {good[kept[row]]: f"in the result, {reason}" for row, reason in bad.items()}
        if bad:
            rows, _ = rows_without(rows, bad)
        ids = np.fromiter((call.row for call in calls), np.int64, len(calls))
        counters = self.context.counters
        counters.folded -= len(calls)
        counters.passed += len(calls) - len(failed)
        if failed:
            numbers = sorted(failed)
            bad = self._log.take(ids[numbers])
            counters.dead_lettered += len(numbers)
            self.context.dead_letters.reject(self.context.name, bad, [failed[number] for number in numbers])
        self._log.remove(ids)
        ingest_ns = min(call.batch.ingest_ns for call in calls)
        first = calls[0].batch
        yield MAIN, Batch(rows, first.keep, ingest_ns, keys=first.keys)


class AsyncFunctionDescriptor(OperatorDescriptor[AsyncFunctionSpec]):
    """A coroutine function of the user's answers for each row; what is kept are rows without their answer."""

    spec = AsyncFunctionSpec
    verb = "map_async"
    operator = AsyncFunction
    folded_may_fail = True

    def outputs(self, spec: AsyncFunctionSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return what the function makes; event time is kept with its column.

        Raises:
            PlanError: the input is updating.
        """
        if inputs[0].changelog:
            raise PlanError(
                f"{name!r} calls a coroutine on an updating stream, whose retractions might get another answer; "
                "call it before the aggregate, or use a final window"
            )
        return {MAIN: StreamSchema(spec.fields, kept_time(inputs[0], spec.fields))}

    def needed(self, spec: AsyncFunctionSpec, inputs: Sequence[StreamSchema], wanted: Wanted) -> Sequence[Set[str]]:
        """Return the columns that the function names, if it does."""
        return super().needed(spec, inputs, wanted) if spec.columns is None else [frozenset(spec.columns)]

    def depends_on(self, spec: AsyncFunctionSpec) -> str | None:
        """Return that answers come in any order, if they leave so."""
        return None if spec.ordered else "passes answers on as they come"

    def sampling(self, spec: AsyncFunctionSpec) -> Sampling:
        """Return that each row is made of one."""
        return Sampling.PASSED

    def words(self, spec: AsyncFunctionSpec, node: OperatorNode) -> Words:
        """Name the function, its limits, and what it makes."""
        timeout = format_microseconds(spec.timeout_us)
        limits = ("calls", f"{spec.capacity} at a time, {timeout} each, {spec.retries} retries")
        columns = ("columns", ", ".join(spec.fields.names))
        return Words(f"map async {function_name(spec.function)}", (limits, columns, *error_details(spec.on_error)))


ASYNC_FUNCTION = AsyncFunctionDescriptor()
