"""Names from other libraries and their counterparts here, for errors about unknown names."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.model.source_location import user_location

_AGGREGATES = {
    "sum": "sum_",
    "min": "min_",
    "max": "max_",
    "mean": "mean",
    "avg": "mean",
    "count": "count",
    "std": "stddev",
    "stddev": "stddev",
    "var": "variance",
    "n_unique": "count_distinct",
    "nunique": "count_distinct",
    "countDistinct": "count_distinct",
    "first": "first",
    "last": "last",
}
"""Aggregates that other libraries have as methods, and their names here."""

_GROUPED = {
    name: f"agg(value={here}({'' if here == 'count' else repr('column')})), with penstock.{here}"
    for name, here in _AGGREGATES.items()
}

STREAM: Mapping[str, str] = {
    **dict.fromkeys(("group_by", "groupby", "groupBy", "keyBy", "partition_by", "partitionBy"), 'key_by("column")'),
    **dict.fromkeys(("with_column", "withColumn", "withColumns", "assign"), "with_columns(name=expression)"),
    **dict.fromkeys(("where", "query"), 'filter(col("column") > 0)'),
    **dict.fromkeys(("withColumnRenamed", "with_columns_renamed"), 'rename({"old": "new"})'),
    **dict.fromkeys(("flatMap",), "flat_map(function)"),
    **dict.fromkeys(("apply", "for_each", "foreach"), "map(function)"),
    **dict.fromkeys(("map_partitions", "mapInArrow", "mapInPandas", "process_batch"), "map_batches(function)"),
    **dict.fromkeys(("concat", "unionAll", "unionByName", "merge"), "union(other)"),
    **dict.fromkeys(("unique", "drop_duplicates", "dropDuplicates"), "distinct()"),
    **dict.fromkeys(("sort", "sort_by", "order_by", "orderBy"), "top(rows, by=...): an endless stream has no last row"),
    **dict.fromkeys(("limit", "head", "take", "show", "fetch"), "preview(rows) to look at the first rows"),
    **dict.fromkeys(("aggregate", "summarize", "summarise"), "agg(name=aggregate)"),
    **dict.fromkeys(("columns", "dtypes", "printSchema", "print_schema"), "schema"),
    **dict.fromkeys(("add_sink", "sink_to", "sink", "writeStream", "output"), "a method that begins with write_"),
    **dict.fromkeys(("to_pandas", "toPandas", "to_arrow", "to_polars"), "collect(), then run(), then its table()"),
    **dict.fromkeys(("withWatermark", "with_watermark", "assign_timestamps"), "time= and watermark= of the reader"),
    **dict.fromkeys(("group_by_dynamic", "rolling"), 'key_by("column").window(tumbling("10s"))'),
    **dict.fromkeys(("drop_nulls", "dropna"), 'filter(col("column").is_not_null())'),
    **dict.fromkeys(("start", "run", "execute"), "run() of the module, or of the Job"),
    **{name: f'key_by("column").{method}' for name, method in _GROUPED.items()},
}

KEYED: Mapping[str, str] = {
    **dict.fromkeys(("aggregate", "summarize", "summarise"), "agg(name=aggregate)"),
    **dict.fromkeys(("apply", "map_groups", "applyInPandas", "flat_map"), "process(function)"),
    **dict.fromkeys(("map", "filter", "select", "with_columns"), "it before key_by(...), or after agg(...)"),
    **dict.fromkeys(("filter_rows", "where"), "filter(...) before key_by(...), or after agg(...)"),
    **dict.fromkeys(("time_window", "windowed_by"), 'window(tumbling("10s"))'),
    **_GROUPED,
}

EXPRESSION: Mapping[str, str] = {
    **{
        name: f"penstock.{here}({'' if here == 'count' else 'column'}) inside agg(...)"
        for name, here in _AGGREGATES.items()
    },
    **dict.fromkeys(("isNull", "isnull", "isna"), "is_null()"),
    **dict.fromkeys(("isNotNull", "notnull", "notna"), "is_not_null()"),
    **dict.fromkeys(("isin",), "is_in([...])"),
    **dict.fromkeys(("astype", "as_type"), "cast(type)"),
    **dict.fromkeys(("fillna", "fill_nan"), "fill_null(value)"),
    **dict.fromkeys(("name_as", "rename", "as_"), 'alias("name")'),
    **dict.fromkeys(("map", "apply", "map_elements"), "map(function) of the stream"),
    **dict.fromkeys(("otherwise",), "when(condition).then(value).otherwise(value)"),
    **dict.fromkeys(("over",), "key_by(...).over(rows).agg(...) of the stream"),
}

MODULE: Mapping[str, str] = {
    **{name: f"penstock.{here}" for name, here in _AGGREGATES.items() if name != here},
    **dict.fromkeys(("literal", "Literal", "const"), "penstock.lit"),
    **dict.fromkeys(("column", "Column", "field"), "penstock.col"),
    **dict.fromkeys(("group_by", "groupby"), 'stream.key_by("column")'),
    **dict.fromkeys(("window", "tumble", "TumblingEventTimeWindows"), 'penstock.tumbling("10s")'),
    **dict.fromkeys(("functions", "F"), "the functions of the module itself, such as penstock.sum_"),
    **dict.fromkeys(("scan_csv",), "penstock.read_csv"),
    **dict.fromkeys(("scan_parquet",), "penstock.read_parquet"),
    **dict.fromkeys(("from_kafka", "KafkaSource", "readStream"), "penstock.read_kafka"),
}


class NameHints:
    """A mixin that names the counterpart of an unknown attribute, from ``_hints`` by attribute."""

    _hints: ClassVar[Mapping[str, str]] = {}
    _noun: ClassVar[str] = "object"
    __slots__ = ()

    if not TYPE_CHECKING:
        # Type checkers must not believe that every attribute is there.
        def __getattr__(self, name: str) -> Any:
            """Raise an `AttributeError` that names the counterpart, if one is known."""
            hint = self._hints.get(name)
            if hint is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            raise AttributeError(f"{self._noun} has no {name}: use {hint} (at {user_location()})")
