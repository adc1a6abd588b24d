"""Hidden columns that say how good a result is, on their way from the aggregate that knows to the sinks.

Names that begin with ``$`` are no user's. Sinks write them without it.
"""

from collections.abc import Collection, Iterable

ACCURACY = "$accuracy"
"""double, not null: rows that took part / rows there would have been without shedding, in [0, 1]; 1 is exact."""

BIASED = "$biased"
"""boolean, not null: the values of this row are not estimates for all rows, but of the kept rows alone."""

BUCKET = "$bucket"
"""uint8, not null: one of `shedding.key_sampling.BUCKETS`, by the key in whose sample a row is, which is alike for all
rows of a key. Of rows that are no sample, 0.
"""

DRAW = "$draw"
"""uint8, not null: of rows below keep 1 of a source with strata, the step that their record has drawn, in [0, 64)."""

SAMPLE = (BUCKET, DRAW)
"""What tells rows of a sample apart."""

QUALITY = (ACCURACY, BIASED)
"""What is said of a whole row."""


def low_of(name: str) -> str:
    """Return the column of the lower end of the interval of an aggregate, which is null where there is none."""
    return f"$low.{name}"


def high_of(name: str) -> str:
    """Return the column of the upper end."""
    return f"$high.{name}"


def certified_of(name: str) -> str:
    """Return the column that says, from the kept rows themselves, whether the interval can be trusted."""
    return f"$certified.{name}"


def hidden_of(columns: Iterable[tuple[str, str]], names: Collection[str]) -> list[tuple[str, str]]:
    """Return the hidden columns that go with ``columns``, each by its new name and its old one, in the same form.

    ``names`` are those that there are.
    """
    pairs: list[tuple[str, str]] = []
    for new, old in columns:
        pairs += [(of(new), of(old)) for of in (low_of, high_of, certified_of) if of(old) in names]
    return pairs + [(name, name) for name in (*QUALITY, *SAMPLE) if name in names]


def is_hidden(name: str) -> bool:
    """Return whether a column is one of these."""
    return name in (*QUALITY, *SAMPLE) or name.startswith(("$low.", "$high.", "$certified."))
