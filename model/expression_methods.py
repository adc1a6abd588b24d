"""The methods under ``.str``, ``.dt`` and ``.struct`` of an expression; each calls one named function.

`functions` says what the functions take and return.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.model.expressions import Expr, Operand

_WHITESPACE = " \t\n\r\v\f"


class TextMethods:
    """Functions of text. Positions count code points from 1; regular expressions are RE2's."""

    __slots__ = ("_text",)

    def __init__(self, text: "Expr") -> None:
        """Offer the methods on this expression."""
        self._text = text

    def lower(self) -> "Expr":
        """Lower-case every code point."""
        return self._text.call("lower")

    def upper(self) -> "Expr":
        """Upper-case every code point."""
        return self._text.call("upper")

    def length(self) -> "Expr":
        """The number of code points."""
        return self._text.call("length")

    def substring(self, start: int, length: int | None = None) -> "Expr":
        """From position ``start`` (1 is the first, -1 the last), ``length`` code points or all the rest."""
        return self._text.call("substring", start, *([] if length is None else [length]))

    def split_part(self, separator: str, index: int) -> "Expr":
        """The part of this number (from 1) between separators; null if there are fewer parts."""
        return self._text.call("split_part", separator, index)

    def concat(self, *others: "Operand") -> "Expr":
        """Append texts; null if one of them is null."""
        return self._text.call("concat", *others)

    def like(self, pattern: str) -> "Expr":
        """Match SQL's pattern: ``%`` any text, ``_`` one code point, nothing escapes."""
        return self._text.call("like", pattern)

    def regexp_matches(self, pattern: str) -> "Expr":
        """Whether the regular expression matches somewhere."""
        return self._text.call("regexp_matches", pattern)

    def regexp_extract(self, pattern: str, group: int = 0) -> "Expr":
        """The first match's group (0: all of it); null without a match, empty if only the group did not take part."""
        return self._text.call("regexp_extract", pattern, group)

    def count_char(self, character: str) -> "Expr":
        """How often one code point occurs."""
        return self._text.call("count_char", character)

    def starts_with(self, prefix: str) -> "Expr":
        """Whether the text begins so."""
        return self._text.call("starts_with", prefix)

    def ends_with(self, suffix: str) -> "Expr":
        """Whether the text ends so."""
        return self._text.call("ends_with", suffix)

    def contains(self, part: str) -> "Expr":
        """Whether the text has this part."""
        return self._text.call("contains", part)

    def replace(self, old: str, new: str) -> "Expr":
        """Replace every occurrence."""
        return self._text.call("replace", old, new)

    def trim(self, characters: str = " ") -> "Expr":
        """Remove these characters from both ends."""
        return self._text.call("trim", characters)

    def ltrim(self, characters: str = " ") -> "Expr":
        """Remove these characters from the start."""
        return self._text.call("ltrim", characters)

    def rtrim(self, characters: str = " ") -> "Expr":
        """Remove these characters from the end."""
        return self._text.call("rtrim", characters)

    def strip(self) -> "Expr":
        """Remove spaces, tabs and line ends from both ends."""
        return self._text.call("trim", _WHITESPACE)


class TimeMethods:
    """Functions of dates and timestamps, in the zone of the column's type (UTC without one). Parts are int64.

    Zones are known up to 2037: later times have the standard time of their zone, also in summer.
    """

    __slots__ = ("_time",)

    def __init__(self, time: "Expr") -> None:
        """Offer the methods on this expression."""
        self._time = time

    def year(self) -> "Expr":
        """The year."""
        return self._time.call("year")

    def month(self) -> "Expr":
        """The month, 1 to 12."""
        return self._time.call("month")

    def day(self) -> "Expr":
        """The day of the month, 1 to 31."""
        return self._time.call("day")

    def hour(self) -> "Expr":
        """The hour, 0 to 23."""
        return self._time.call("hour")

    def minute(self) -> "Expr":
        """The minute, 0 to 59."""
        return self._time.call("minute")

    def second(self) -> "Expr":
        """The second, 0 to 59."""
        return self._time.call("second")

    def millisecond(self) -> "Expr":
        """The milliseconds after the second, 0 to 999."""
        return self._time.call("millisecond")

    def day_of_week(self) -> "Expr":
        """The day of the week, 1 (Monday) to 7 (Sunday)."""
        return self._time.call("isodow")

    def day_of_year(self) -> "Expr":
        """The day of the year, 1 to 366."""
        return self._time.call("dayofyear")

    def date(self) -> "Expr":
        """The date without the time of day."""
        return self._time.call("date")

    def truncate(self, unit: str) -> "Expr":
        """The start of the interval: ``"1m"``, ``"15m"``, ``"6h"`` (since 1970), or hour, day, week, month, year."""
        return self._time.call("truncate", unit)

    def format(self, pattern: str) -> "Expr":
        """Text such as ``%Y-%m-%d %H:%M:%S``; also %f (microseconds), %j, %y, %F, %T, %R."""
        return self._time.call("strftime", pattern)

    def epoch_us(self) -> "Expr":
        """Whole microseconds since 1970 in UTC."""
        return self._time.call("epoch_us")

    def epoch_ms(self) -> "Expr":
        """Whole milliseconds since 1970 in UTC."""
        return self._time.call("epoch_ms")


class StructMethods:
    """Functions of structs."""

    __slots__ = ("_struct",)

    def __init__(self, struct: "Expr") -> None:
        """Offer the methods on this expression."""
        self._struct = struct

    def field(self, name: str) -> "Expr":
        """The field of this name; null where the struct is."""
        return self._struct.call("struct_extract", name)
