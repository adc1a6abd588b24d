"""What a stream wrote to topics of a real broker is what Spark computes, whatever else was begun there.

Broken operators and topics that others write to are caught, and put right, in the test of corrections.
"""

from typing import Any

import pytest

from penstock.replay.validation_result import ComparisonStatus, QueryValidation, Validation
from tests.kafka.reading import read_topic
from tests.kafka.test_source import transaction
from tests.replay.shop_topics import SALES, SINKS, Shop, shop

__all__ = ["shop"]


def queries(validation: Validation) -> dict[str, QueryValidation]:
    return {query.query: query for query in validation.queries}


@pytest.mark.long("four topics on Spark; test_nexmark reads a topic, test_output_formats[avro] another")
def test_what_a_stream_wrote_to_topics_is_what_spark_computes(shop: Shop, spark: Any) -> None:
    # Rows of others that are not committed lie between those of the stream, which come in many transactions.
    for name in SINKS:
        transaction(shop.kafka, shop.topics[name], range(5), "before").abort_transaction(20)
    shop.run()
    for name in SINKS:
        transaction(shop.kafka, shop.topics[name], range(5), "behind", 1).abort_transaction(20)
    code, validation = shop.validate()
    found = queries(validation)
    assert {name: (query.why, query.status) for name, query in found.items()} == dict.fromkeys(
        SINKS, (None, ComparisonStatus.SAME)
    )
    assert code == 0
    assert (found["minutes"].rows_exact, found["totals"].rows_exact, found["changes"].rows_exact) == (49, 4, 4)
    assert (found["minutes"].mode, found["totals"].mode, found["changes"].mode) == ("append", "upsert", "changelog")
    assert sum((validation.sources[0].stop or {}).values()) == SALES
    totals = read_topic(shop.kafka, shop.topics["totals"])
    assert None in [message.value for message in totals] and len(totals) > 10
