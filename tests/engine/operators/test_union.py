"""The union of streams of the same columns."""

import pyarrow as pa
import pytest

from penstock.dsl.job import Job
from penstock.dsl.readers import read_memory
from penstock.engine.operators.union import union_output
from penstock.model.errors import PlanError
from penstock.model.expressions import col
from penstock.model.schema import StreamSchema

REQUIRED = pa.schema([pa.field("item", pa.int64(), nullable=False)])
OPTIONAL = pa.schema([pa.field("item", pa.int64())])


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("schemas", [(REQUIRED, OPTIONAL), (OPTIONAL, REQUIRED)])
def test_a_column_that_only_one_input_requires_may_be_null(
    schemas: tuple[pa.Schema, pa.Schema], parallelism: int
) -> None:
    job = Job()
    rows = [{"item": item} for item in range(20)]
    one, other = (read_memory(rows, schema=schema, job=job).filter(col("item") >= 0) for schema in schemas)
    united = one.union(other)
    result = united.key_by("item").top(2, by="item").collect()
    job.run("test", parallelism=parallelism, batch_rows=3)
    assert united.schema.field("item").nullable
    assert sorted(row["item"] for row in result.rows()) == sorted(2 * list(range(20)))


def test_streams_of_different_columns_are_refused() -> None:
    text = StreamSchema(pa.schema({"item": pa.string()}))
    with pytest.raises(PlanError, match=r"different columns: \(item int64\) and \(item string\)"):
        union_output([StreamSchema(OPTIONAL), text], "both")
    with pytest.raises(PlanError, match="updating stream with an append-only one"):
        union_output([StreamSchema(OPTIONAL), StreamSchema(OPTIONAL, changelog=True)], "both")
