"""The error that a query's user wants of its results, whatever is shed for that."""

from dataclasses import dataclass
from numbers import Real
from typing import Literal, get_args

from penstock.model.errors import OptionError
from penstock.model.keep_rates import STEPS

Otherwise = Literal["keep", "null", "correct"]

OTHERWISE: tuple[str, ...] = get_args(Otherwise)

CONFIDENCE = 0.95
"""The share of samples whose intervals cover the value for all rows, unless a query says another one."""

MOST_CONFIDENCE = 0.999
"""Beyond it an interval would rest on tails of which a sample shows nothing."""

LEAST_KEEP = 1 / STEPS
"""The least keep rate of a query that wants an error and has no minimum accuracy."""


@dataclass(frozen=True, slots=True)
class MaxError:
    """Half of the interval at ``confidence`` lies within ``error`` times the value, for ``rows`` of the rows.

    ``otherwise``: what becomes of a row whose interval is wider: it is written as it is (``keep``), such values are
    null (``null``), or it is written and waits for the exact one, which ``penstock validate --correct`` publishes
    (``correct``).
    """

    error: float
    confidence: float = CONFIDENCE
    otherwise: Otherwise = "keep"
    rows: float = 0.95

    def __post_init__(self) -> None:
        """Refuse what cannot be had.

        Raises:
            OptionError: a number is out of its range, or there is no such ``otherwise``; it names those that there are.
        """
        check_error(self.error)
        _check("the share of rows that an error holds for", self.rows, "with_max_error(0.05, groups=0.95)")
        _check("the confidence of an interval", self.confidence, "with_max_error(0.05, confidence=0.95)")
        if self.confidence > MOST_CONFIDENCE:
            raise OptionError(
                f"the confidence of an interval is at most {MOST_CONFIDENCE}, not {self.confidence}: nobody sees in a "
                "sample what lies beyond that"
            )
        if self.otherwise not in OTHERWISE:
            known = f"{', '.join(map(repr, OTHERWISE[:-1]))} or {OTHERWISE[-1]!r}"
            raise OptionError(f"what happens to a row that is not accurate enough is {known}, not {self.otherwise!r}")

    def text(self) -> str:
        """Return it in words."""
        of = f"of {self.rows:.4g} of rows at confidence {self.confidence:.4g}"
        return f"max error {self.error:.4g} {of}, otherwise {self.otherwise}"


def check_error(value: object) -> float:
    """Return a maximum error.

    Raises:
        OptionError: it is no number above 0 and below 1.
    """
    return _check("a maximum error", value, "with_max_error(0.05)")


def _check(what: str, value: object, example: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise OptionError(f"{what} is a number above 0 and below 1, not {value!r}; write {example}")
    return float(value)
