"""What sinks write of how good results are, from what rows hide and what their header says."""

import pyarrow as pa

from penstock.engine.core.elements import Batch
from penstock.engine.operators.sink_columns import SinkColumns
from penstock.model.result_columns import ACCURACY, BIASED, certified_of, high_of, low_of
from penstock.model.schema import WEIGHT, StreamSchema

RAW = pa.record_batch({"key": ["a", "b"], "paid": [1, 2]})
RESULTS = pa.record_batch(
    {
        "n": [10, 20],
        "most": [5, 6],
        low_of("n"): [8, None],
        high_of("n"): [12, None],
        certified_of("n"): [True, None],
        ACCURACY: [0.5, 1.0],
        BIASED: [False, True],
        WEIGHT: pa.array([1, -1], pa.int8()),
    }
)


def test_rows_that_nothing_has_folded_have_the_accuracy_of_their_header() -> None:
    columns = SinkColumns(StreamSchema(RAW.schema))
    shown = columns.rows(Batch(RAW, keep=0.25))
    assert shown.schema.names == ["key", "paid", "accuracy", "biased"]
    assert shown.to_pylist() == [
        {"key": "a", "paid": 1, "accuracy": 0.25, "biased": False},
        {"key": "b", "paid": 2, "accuracy": 0.25, "biased": False},
    ]
    assert shown.schema.equals(columns.schema.physical)
    for keep, rows in ((0.25, 1), (0.5, 1), (0.5, 2), (1.0, 2)):
        shown = columns.rows(Batch(RAW.slice(0, rows), keep=keep))
        assert shown.column("accuracy").to_pylist() == [keep] * rows
        assert shown.column("biased").to_pylist() == [False] * rows


def test_results_show_what_they_hide_behind_the_columns_of_the_user_and_before_the_weight() -> None:
    schema = pa.schema([field for field in RESULTS.schema if field.name != WEIGHT])
    columns = SinkColumns(StreamSchema(schema, changelog=True))
    shown = columns.rows(Batch(RESULTS))
    assert columns.clash is None
    assert shown.schema.names == ["n", "most", "accuracy", "biased", "n_low", "n_high", "n_certified", WEIGHT]
    assert shown.to_pylist()[0] == {
        "n": 10, "most": 5, "accuracy": 0.5, "biased": False, "n_low": 8, "n_high": 12, "n_certified": True, WEIGHT: 1
    }  # fmt: skip
    assert columns.rows(Batch(RESULTS, keep=0.5)).column("accuracy").to_pylist() == [0.25, 0.5]


def test_a_name_that_comes_twice_is_known_before_rows_are_made() -> None:
    schema = pa.schema({"n": pa.int64(), "n_high": pa.int64(), low_of("n"): pa.int64(), high_of("n"): pa.int64()})
    hidden = [pa.field(certified_of("n"), pa.bool_()), pa.field(ACCURACY, pa.float64()), pa.field(BIASED, pa.bool_())]
    assert SinkColumns(StreamSchema(pa.schema([*schema, *hidden]))).clash == "n_high"
    assert SinkColumns(StreamSchema(pa.schema({"biased": pa.int64()}))).clash == "biased"
