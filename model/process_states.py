"""State that a process function declares: a value, a list, a map or a reduced value per key, of a declared type.

The same objects are declarations in a class body and, inside `process` and `on_timer`, the state of the current key:
`engine.operators` replaces them by live ones in every operator instance.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NoReturn, TypeVar, overload

import pyarrow as pa

from penstock.model.durations import Duration, to_microseconds
from penstock.model.errors import OptionError, PlanError, SchemaError
from penstock.model.option_literals import TimeBasis
from penstock.model.schema import to_arrow_type, without_none
from penstock.model.source_location import user_location

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class DeclaredType:
    """A declared type: what the user wrote (``kind``), without ``| None``, and its Arrow type."""

    def __init__(self, kind: Any, what: str) -> None:
        """Resolve the type; ``what`` describes it in errors.

        Raises:
            PlanError: values of the type cannot be stored.
        """
        kind = without_none(kind)
        try:
            self.type = to_arrow_type(kind)
        except SchemaError as error:
            raise PlanError(f"{what} cannot be stored: {error} (at {user_location()})") from None
        self.kind = kind

    def in_zone(self, zone: str | None) -> pa.DataType:
        """Return the Arrow type where a Python ``datetime`` is one of this time zone (None: without zone)."""
        return self.type if isinstance(self.kind, pa.DataType | str) else _zoned(self.type, zone)


class State:
    """The base class of all state.

    With ``ttl_us``, what was last written that long ago reads as absent and is removed; ``ttl_clock`` is ``event``
    (the time of rows and timers) or ``processing``. Lists and maps count for every entry by itself.
    """

    shape = "state"

    def __init__(self, declared: DeclaredType, ttl: Duration | None, ttl_clock: str) -> None:
        """Check the options.

        Raises:
            OptionError: an option has no such value.
        """
        if ttl_clock not in ("event", "processing"):
            raise OptionError(f"ttl_clock is 'event' or 'processing', not {ttl_clock!r}")
        self.declared = declared
        self.ttl_us = None if ttl is None else to_microseconds(ttl, "ttl")
        if self.ttl_us == 0:
            raise OptionError("ttl must be longer than 0")
        self.ttl_clock = ttl_clock

    def clear(self) -> None:
        """Forget the key's state."""
        self._unbound()

    def _unbound(self) -> NoReturn:
        raise PlanError(
            f"a {self.shape} state was used outside process() and on_timer(), or by a method of the other form: "
            "gather(), scatter() and append_at() are for a BatchProcess, all others for a Process"
        )


class ValueState(State, Generic[T]):
    """One value per key."""

    shape = "value"

    def __init__(self, declared: DeclaredType, default: Any, ttl: Duration | None, ttl_clock: str) -> None:
        """Take the arguments of `value_state`."""
        super().__init__(declared, ttl, ttl_clock)
        self.default = default

    def get(self) -> T:
        """Return the key's value, or the default."""
        self._unbound()

    def set(self, value: T) -> None:
        """Replace the key's value; a value that is not of the declared type is an error of the row."""
        self._unbound()

    def gather(self) -> pa.Array:
        """Return the value of each of ``context.keys`` (the default or null where there is none)."""
        self._unbound()

    def scatter(self, values: Any, mask: Any = None) -> None:
        """Replace the value of each of ``context.keys``, or of those where ``mask`` is true; null clears."""
        self._unbound()


class ReducingState(ValueState[T | None], Generic[T]):
    """One value per key, reduced by a function of two: the present value and the added one."""

    shape = "reducing"

    def __init__(
        self, declared: DeclaredType, function: Callable[..., Any], ttl: Duration | None, ttl_clock: str
    ) -> None:
        """Take the arguments of `reducing_state`."""
        super().__init__(declared, None, ttl, ttl_clock)
        self.function = function

    def add(self, value: T) -> None:
        """Reduce the key's value with another; the first is taken as it is."""
        self._unbound()


class ListState(State, Generic[T]):
    """A list per key; appending does not read it."""

    shape = "list"

    def append(self, value: T) -> None:
        """Add a value at the end."""
        self._unbound()

    def extend(self, values: Iterable[T]) -> None:
        """Add values at the end."""
        self._unbound()

    def get(self) -> list[T]:
        """Return the values, oldest first, as a list of the caller's own."""
        self._unbound()

    def set(self, values: Iterable[T]) -> None:
        """Replace all values."""
        self._unbound()

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())

    def __len__(self) -> int:
        return len(self.get())

    def gather(self) -> pa.Array:
        """Return the list of each of ``context.keys`` (empty where there is none)."""
        self._unbound()

    def scatter(self, lists: Any, mask: Any = None) -> None:
        """Replace the list of each of ``context.keys``, or of those where ``mask`` is true; null clears."""
        self._unbound()

    def append_at(self, groups: Any, values: Any) -> None:
        """Append values[i] to the list of the key number groups[i]."""
        self._unbound()


class MapState(State, Generic[K, V]):
    """A map per key, in order of insertion; it is read as a whole where a batch touches it."""

    shape = "map"

    def __init__(self, keys: DeclaredType, values: DeclaredType, ttl: Duration | None, ttl_clock: str) -> None:
        """Take the arguments of `map_state`."""
        super().__init__(values, ttl, ttl_clock)
        self.keys_declared = keys

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: T) -> V | T: ...
    def get(self, key: K, default: Any = None) -> Any:
        """Return the value of an entry, or ``default``."""
        self._unbound()

    def put(self, key: K, value: V) -> None:
        """Add or replace an entry."""
        self._unbound()

    def delete(self, key: K) -> None:
        """Remove an entry, if it is there."""
        self._unbound()

    def items(self) -> list[tuple[K, V]]:
        """Return all entries."""
        self._unbound()

    def contains(self, key: K) -> bool:
        """Return whether there is such an entry."""
        self._unbound()

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __len__(self) -> int:
        return len(self.items())


@overload
def value_state(
    kind: type[T], *, default: T, ttl: Duration | None = None, ttl_clock: TimeBasis = "event"
) -> ValueState[T]: ...
@overload
def value_state(
    kind: type[T], *, ttl: Duration | None = None, ttl_clock: TimeBasis = "event"
) -> ValueState[T | None]: ...
@overload
def value_state(
    kind: Any, *, default: Any = None, ttl: Duration | None = None, ttl_clock: TimeBasis = "event"
) -> ValueState[Any]: ...
def value_state(
    kind: Any, *, default: Any = None, ttl: Duration | None = None, ttl_clock: TimeBasis = "event"
) -> ValueState[Any]:
    """Declare one value per key.

    ``kind`` is a Python type (``int``, ``str``, ``datetime``, ``Decimal``, ``list[int]``, a dataclass) or an Arrow
    type; a ``datetime`` is of the time zone of the stream's event time. ``default`` is what `get` returns where
    nothing was set. See `State` for ``ttl`` and ``ttl_clock``.

    Raises:
        PlanError: values of the type cannot be stored.
        OptionError: an option has no such value.
    """
    return ValueState(DeclaredType(kind, "the value of a value_state"), default, ttl, ttl_clock)


@overload
def reducing_state(
    kind: type[T], function: Callable[..., Any], *, ttl: Duration | None = None, ttl_clock: TimeBasis = "event"
) -> ReducingState[T]: ...
@overload
def reducing_state(
    kind: Any, function: Callable[..., Any], *, ttl: Duration | None = None, ttl_clock: TimeBasis = "event"
) -> ReducingState[Any]: ...
def reducing_state(
    kind: Any, function: Callable[..., Any], *, ttl: Duration | None = None, ttl_clock: TimeBasis = "event"
) -> ReducingState[Any]:
    """Declare one value per key that a function of two values makes, such as ``max`` or ``operator.add``.

    Raises:
        PlanError: values of the type cannot be stored, or there is no function.
        OptionError: an option has no such value.
    """
    if not callable(function):
        raise PlanError(
            f"reducing_state() takes a type and a function of two values, not {function!r}; write "
            f"reducing_state(int, max) (at {user_location()})"
        )
    return ReducingState(DeclaredType(kind, "the value of a reducing_state"), function, ttl, ttl_clock)


@overload
def list_state(kind: type[T], *, ttl: Duration | None = None, ttl_clock: TimeBasis = "event") -> ListState[T]: ...
@overload
def list_state(kind: Any, *, ttl: Duration | None = None, ttl_clock: TimeBasis = "event") -> ListState[Any]: ...
def list_state(kind: Any, *, ttl: Duration | None = None, ttl_clock: TimeBasis = "event") -> ListState[Any]:
    """Declare a list of values per key.

    Raises:
        PlanError: values of the type cannot be stored.
        OptionError: an option has no such value.
    """
    return ListState(DeclaredType(kind, "an element of a list_state"), ttl, ttl_clock)


@overload
def map_state(
    keys: type[K], values: type[V], *, ttl: Duration | None = None, ttl_clock: TimeBasis = "event"
) -> MapState[K, V]: ...
@overload
def map_state(
    keys: Any, values: Any, *, ttl: Duration | None = None, ttl_clock: TimeBasis = "event"
) -> MapState[Any, Any]: ...
def map_state(
    keys: Any, values: Any, *, ttl: Duration | None = None, ttl_clock: TimeBasis = "event"
) -> MapState[Any, Any]:
    """Declare a map of keys to values per key of the stream.

    Raises:
        PlanError: values of a type cannot be stored, or the keys are lists, maps or structs.
        OptionError: an option has no such value.
    """
    declared = DeclaredType(keys, "the key of a map_state")
    if pa.types.is_nested(declared.type):
        raise PlanError(f"the key of a map_state cannot be {declared.type}; use a simple type (at {user_location()})")
    return MapState(declared, DeclaredType(values, "the value of a map_state"), ttl, ttl_clock)


def _zoned(kind: pa.DataType, zone: str | None) -> pa.DataType:
    """Return a type made from Python types with its times in another zone."""
    if kind == pa.timestamp("us", "UTC"):
        return pa.timestamp("us", zone)
    if pa.types.is_struct(kind):
        return pa.struct(
            [kind.field(index).with_type(_zoned(kind.field(index).type, zone)) for index in range(kind.num_fields)]
        )
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_zoned(kind.value_type, zone)))
    return kind
