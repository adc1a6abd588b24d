"""Kernels of times as text: fields of fixed width, with the last day and the last row's digits kept for the next row.

`expressions.time` calls them.
"""

import numpy as np

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Bytes, Ints

YEAR, MONTH, DAY, HOUR, MINUTE, SECOND, MICROSECOND, DAY_OF_YEAR, YEAR_OF_CENTURY = range(9)
_DAY_SECONDS = 86_400


@jit
def format_times(
    seconds: Ints,
    microseconds: Ints,
    granularity: int,
    fields: Ints,
    text: Bytes,
) -> bool:
    """Overwrite the fields in ``text[row, :]``, which holds the text between them.

    Args:
        seconds: since 1970, floored.
        microseconds: after the second; may be empty when no field shows them.
        granularity: seconds within which all fields are the same: such a row copies the one before it.
        fields: field[k] = (what, first column, digits).
        text: uint8[rows, width].

    Returns:
        Whether all years are in 0 to 9999; if not, the text is not complete.
    """
    width = text.shape[1]
    bucket = np.int64(0)
    known_day = np.int64(-9_000_000_000_000_000_000)
    values = np.zeros(9, np.int64)
    for i in range(seconds.size):
        second = seconds[i]
        if i > 0 and granularity > 0:
            since = second - bucket
            if 0 <= since < granularity:
                for j in range(width):
                    text[i, j] = text[i - 1, j]
                continue
        if granularity > 0:
            bucket = (second // granularity) * granularity
        day = second // _DAY_SECONDS
        rest = second - day * _DAY_SECONDS
        if day != known_day:
            known_day = day
            # Days since 1 March of year 0 in eras of 400 years; the year begins in March so that leap days end it.
            shifted = day + 719_468
            era = shifted // 146_097
            day_of_era = shifted - era * 146_097
            year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
            day_of_march_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
            march_month = (5 * day_of_march_year + 2) // 153
            month = march_month + 3 if march_month < 10 else march_month - 9
            year = era * 400 + year_of_era + (1 if month <= 2 else 0)
            if year < 0 or year > 9999:
                return False
            leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
            values[YEAR] = year
            values[MONTH] = month
            values[DAY] = day_of_march_year - (153 * march_month + 2) // 5 + 1
            if month > 2:
                values[DAY_OF_YEAR] = day_of_march_year + 60 + (1 if leap else 0)
            else:
                values[DAY_OF_YEAR] = day_of_march_year - 305
            values[YEAR_OF_CENTURY] = year % 100
        values[HOUR] = rest // 3_600
        values[MINUTE] = rest // 60 % 60
        values[SECOND] = rest % 60
        if microseconds.size:
            values[MICROSECOND] = microseconds[i]
        for k in range(fields.shape[0]):
            value = values[fields[k, 0]]
            first = fields[k, 1]
            for j in range(fields[k, 2] - 1, -1, -1):
                tenth = value // 10
                text[i, first + j] = 48 + value - tenth * 10
                value = tenth
    return True
