"""How many cases a property of a paper, or the simulated machine, is tried on.

100 in ``make test``, 1,000 in ``make test-all``, or by choice.
"""

import os

QUICK = 100


def cases(least: int = 1000) -> int:
    """Return `least`, or PENSTOCK_CASES if that is more; where it is not set, at most 100."""
    chosen = os.environ.get("PENSTOCK_CASES")
    return min(least, QUICK) if chosen is None else max(least, int(chosen))
