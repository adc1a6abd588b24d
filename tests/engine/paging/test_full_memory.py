"""Memory that is full while a checkpoint is written, up to the moment at which it has been."""

from collections import Counter

import pytest

from penstock.engine.core.elements import Batch
from penstock.engine.paging.options import PagingOptions
from tests.engine.paging.counting import MB, counts, on_pages, paged, pages_cut
from tests.engine.paging.kinds import batch_of
from tests.engine.paging.test_frozen_buckets import work_off


@pytest.mark.parametrize("budget", [100_000, 200_000, 400_000])
@pytest.mark.parametrize("largest", [8_000, 20_000])
@pytest.mark.parametrize("ends_at_once", [False, True])
def test_a_bucket_in_the_middle_of_its_share_outlives_the_end_of_a_checkpoint(
    budget: int, largest: int, ends_at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = paged(PagingOptions(MB + budget, largest, 4_000, 4_000_000))
    stores = on_pages(operator)
    list(operator.on_barrier(1))
    cut = pages_cut(operator)
    expected = counts(operator)
    cut._frozen.write()
    is_full = stores.is_full

    def ends_behind_the_question() -> bool:
        full = is_full()
        if full and ends_at_once:
            cut.release()
        return full

    monkeypatch.setattr(stores, "is_full", ends_behind_the_question)
    rows = [(f"new {number}", 0, 1, "a") for number in range(12_000)]
    list(operator.process(0, Batch(batch_of(rows))))
    expected.update(Counter(key for key, *_ in rows))
    operator.takes_barrier()
    work_off(operator, slices=300)
    cut.release()
    work_off(operator)
    assert counts(operator) == expected
