"""The byte budget of one operator's keyed state, and the accounts of its tables and logs."""

from typing import Any

from numpy.typing import NDArray

from penstock.model.errors import StateBudgetError
from penstock.state.keys.arrays import zeros


class Budget:
    """Bytes that all accounts together may hold (None: unbounded).

    ``owner`` names the operator in errors.
    """

    def __init__(self, owner: str, limit_bytes: int | None) -> None:
        self.owner = owner
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    def set_limit(self, limit_bytes: int | None) -> None:
        """Change the limit at once.

        Raises:
            StateBudgetError: more than that is already held; the old limit stays.
        """
        self._check(self.used_bytes, limit_bytes)
        self.limit_bytes = limit_bytes

    def charge(self, change_bytes: int) -> None:
        """Take (or give back) bytes, before they are allocated.

        Raises:
            StateBudgetError: taking them would exceed the limit; nothing was taken.
        """
        if change_bytes > 0:
            self._check(self.used_bytes + change_bytes, self.limit_bytes)
        self.used_bytes += change_bytes

    def _check(self, bytes_: int, limit_bytes: int | None) -> None:
        if limit_bytes is not None and bytes_ > limit_bytes:
            raise StateBudgetError(
                f"the state of operator {self.owner!r} needs {bytes_:,} bytes but its budget is {limit_bytes:,} bytes "
                "and only memory lies below: raise the budget or keep less (shorter windows, a TTL, fewer keys)."
            )


class Account:
    """The share of a budget held by one table or log."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.used_bytes = 0

    def charge(self, change_bytes: int) -> None:
        """Take (or give back) bytes, before they are allocated.

        Raises:
            StateBudgetError: taking them would exceed the budget; nothing was taken.
        """
        self.budget.charge(change_bytes)
        self.used_bytes += change_bytes

    def longer(self, length: int, *arrays: NDArray[Any]) -> list[NDArray[Any]]:
        """Return arrays with so many rows, the new ones 0, and charge for them; as they are if they have as many.

        Raises:
            StateBudgetError: the budget does not allow it; nothing was taken.
        """
        if length <= len(arrays[0]):
            return list(arrays)
        grown = [zeros((length, *array.shape[1:]), array.dtype) for array in arrays]
        self.charge(sum(new.nbytes - old.nbytes for new, old in zip(grown, arrays, strict=True)))
        for new, old in zip(grown, arrays, strict=True):
            new[: len(old)] = old
        return grown
