"""Strata: groups of records of which a shedder keeps an even share, whatever the rate is."""

from typing import Literal, get_args

from penstock.model.errors import OptionError

Strata = Literal["partition", "key"]

STRATA: tuple[str, ...] = get_args(Strata)
"""By the partition of a record, or within it by the key of its message."""


def check_strata(value: object) -> None:
    """Refuse what are no strata.

    Raises:
        OptionError: it is neither None nor one of `STRATA`.
    """
    if value is not None and value not in STRATA:
        known = " or ".join(map(repr, STRATA))
        raise OptionError(f"strata are {known}, or None for rows that are dropped independently, not {value!r}")
