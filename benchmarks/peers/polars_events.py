"""The tables that the Nexmark queries on Polars read; used by ``polars_queries``."""

from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class Events:
    """The three files and q13's side table, not read yet."""

    person: pl.LazyFrame
    auction: pl.LazyFrame
    bid: pl.LazyFrame
    side_input: pl.LazyFrame
