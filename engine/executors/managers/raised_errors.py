"""Errors of a task manager as they were raised, for a head in the same process."""

from penstock.engine.executors.managers.failures import Failure, failure_of


class RaisedErrors:
    """Errors by what was said of them. Of a task manager in another process none is kept."""

    def __init__(self, *, keeps: bool) -> None:
        """Begin with none."""
        self._keeps = keeps
        self._raised: list[tuple[Failure, BaseException]] = []

    def failure(self, error: BaseException) -> Failure:
        """Return what is said of an error, which is kept."""
        failure = failure_of(error)
        if self._keeps:
            self._raised.append((failure, error))
        return failure

    def take(self, failure: Failure) -> BaseException | None:
        """Return the error of which this very value was said, once; None: there is none."""
        for said, error in self._raised:
            if said is failure:
                self._raised.remove((said, error))
                return error
        return None

    def let_through(self, error: BaseException) -> None:
        """Raise an order to end the program, if this is its process; from another it is said as all errors."""
        if self._keeps and isinstance(error, KeyboardInterrupt | SystemExit):
            raise error
