"""The parts of checkpoints that task managers upload, awaited by whoever makes the manifest."""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace

from penstock.engine.dataflow.checkpoint_port import Contribution
from penstock.model.errors import RetryableError


class AwaitedUploads:
    """Uploads under way, by epoch. All methods are called by one thread; another waits for what `begin` returns."""

    def __init__(self, refuse: Callable[[Sequence[Contribution]], BaseException | None]) -> None:
        """Begin with none. ``refuse`` returns why a checkpoint of these parts must not be made, None if it may."""
        self._refuse = refuse
        self._waiting: dict[int, set[str]] = {}
        self._parts: dict[int, list[Contribution]] = {}
        self._futures: dict[int, Future[Sequence[Contribution]]] = {}
        # What each task manager brought last, and what those did that have retired: it is part of all that follow.
        self._last: dict[str, Contribution] = {}
        self._retired: dict[str, Contribution] = {}

    def retire(self, manager: str) -> None:
        """Let what a task manager has brought last be part of every checkpoint from now on, without asking it again.

        Of its instances, which have all ended, rows may follow elsewhere.
        """
        part = self._retired[manager] = replace(self._last.pop(manager), ended={})
        for epoch in list(self._waiting):
            self.add(epoch, manager, part)

    def forget_retired(self) -> None:
        """Let go of what those brought that have retired: it is of tasks that begin anew."""
        self._retired.clear()

    def begin(self, epoch: int, managers: Collection[str]) -> "Future[Sequence[Contribution]]":
        """Await the parts of these task managers; return what has them once they are there.

        It has a `PenstockError` if one could not upload, or is lost.
        """
        self._waiting[epoch], self._parts[epoch] = set(managers), [*self._retired.values()]
        future = self._futures[epoch] = Future()
        if not managers:
            self.fail(epoch, RetryableError(f"checkpoint {epoch}: nobody is there any more to upload it"))
        return future

    def add(self, epoch: int, manager: str, part: Contribution) -> None:
        """Take in a part; one that is not awaited is passed over."""
        waiting = self._waiting.get(epoch, set())
        if manager not in waiting:
            return
        waiting.remove(manager)
        self._parts[epoch].append(part)
        self._last[manager] = part
        if waiting:
            return
        parts = self._parts[epoch]
        refusal = self._refuse(parts)
        if refusal is None:
            self._forget(epoch).set_result(parts)
        else:
            self._forget(epoch).set_exception(refusal)

    def fail(self, epoch: int, error: BaseException) -> None:
        """One could not upload its part."""
        if epoch in self._futures:
            self._forget(epoch).set_exception(error)

    def give_up(self, epoch: int) -> None:
        """Await no more parts of this epoch and of earlier ones."""
        for begun in [begun for begun in self._futures if begun <= epoch]:
            self.fail(begun, RetryableError(f"checkpoint {begun} was given up"))

    def end(self) -> None:
        """Await nothing more: nobody will take in what is still said."""
        for epoch in list(self._futures):
            self.fail(
                epoch, RetryableError(f"checkpoint {epoch} was not uploaded before its instances were taken down")
            )

    def lose(self, managers: Collection[str], reason: str) -> None:
        """These task managers bring nothing any more."""
        for epoch in [epoch for epoch, waiting in self._waiting.items() if not waiting.isdisjoint(managers)]:
            self.fail(epoch, RetryableError(f"checkpoint {epoch} lacks the part of a task manager: {reason}"))

    def _forget(self, epoch: int) -> "Future[Sequence[Contribution]]":
        del self._waiting[epoch], self._parts[epoch]
        return self._futures.pop(epoch)
