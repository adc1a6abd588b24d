"""Cases of a test of which ``make test`` tries some and ``make test-all`` all."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def but_for(cases: Iterable[Any], kept: Collection[Any], reason: str) -> list[Any]:
    """Return `cases` as parameters, all of them `long` for `reason` but those that are among `kept`.

    A case is a value, a tuple of the values of several parameters, or what `pytest.param` returns; `kept` has values
    and tuples. What is kept must be there.
    """
    found, missing = [], list(kept)
    for case in cases:
        given = case if hasattr(case, "marks") else pytest.param(*(case if isinstance(case, tuple) else (case,)))
        value = given.values if len(given.values) > 1 else given.values[0]
        if value in missing:
            missing.remove(value)
            found.append(given)
        else:
            found.append(pytest.param(*given.values, id=given.id, marks=[*given.marks, pytest.mark.long(reason)]))
    assert not missing, f"no cases {missing} to keep"
    return found
