"""How many cases a property of a paper is tried on: 1,000 in CI, more where PENSTOCK_CASES asks for them."""

import os


def cases(least: int = 1000) -> int:
    """Return the greater of `least` and PENSTOCK_CASES."""
    return max(least, int(os.environ.get("PENSTOCK_CASES", "0")))
