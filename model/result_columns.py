"""Hidden columns that say how good a result is, on their way from the aggregate that knows to the sinks.

Names that begin with ``$`` are no user's. Sinks write them without it.
"""

ACCURACY = "$accuracy"
"""double, not null: rows that took part / rows there would have been without shedding, in [0, 1]; 1 is exact."""

BIASED = "$biased"
"""boolean, not null: the values of this row are not estimates for all rows, but of the kept rows alone."""


def low_of(name: str) -> str:
    """Return the column of the lower end of the interval of an aggregate, which is null where there is none."""
    return f"$low.{name}"


def high_of(name: str) -> str:
    """Return the column of the upper end."""
    return f"$high.{name}"


def certified_of(name: str) -> str:
    """Return the column that says, from the kept rows themselves, whether the interval can be trusted."""
    return f"$certified.{name}"


def is_hidden(name: str) -> bool:
    """Return whether a column is one of these."""
    return name in (ACCURACY, BIASED) or name.startswith(("$low.", "$high.", "$certified."))
