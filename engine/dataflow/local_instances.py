"""The instances of an attempt that run in this process, reached by their names."""

from collections.abc import Collection, Iterable, Iterator

from penstock.engine.core.elements import Barrier
from penstock.engine.dataflow.instance import Instance


class LocalInstances:
    """The instances that are up. It does for them what a `CheckpointPort` is asked for."""

    def __init__(self) -> None:
        """Begin with none."""
        self._up: dict[str, Instance] = {}

    def __len__(self) -> int:
        return len(self._up)

    def __iter__(self) -> Iterator[Instance]:
        return iter(self._up.values())

    def __getitem__(self, name: str) -> Instance:
        return self._up[name]

    def add(self, instances: Iterable[Instance]) -> None:
        """Take in instances that are about to run."""
        self._up |= {instance.name: instance for instance in instances}

    def remove(self, instances: Iterable[Instance]) -> None:
        """Leave out instances that were taken down."""
        for instance in instances:
            del self._up[instance.name]

    def inject(self, epoch: int, names: Collection[str], *, last: bool) -> None:
        """Let these sources send a barrier; see `CheckpointPort.inject`."""
        for instance in self._among(names):
            instance.inject(Barrier(epoch), last=last)

    def end_sources(self, names: Collection[str], *, drain: bool = True) -> None:
        """Let these sources read nothing more; with ``drain`` see `CheckpointPort.end_sources`."""
        for instance in self._among(names):
            instance.end_input(drain=drain)

    def _among(self, names: Collection[str]) -> Iterator[Instance]:
        """Return instances in the order in which they were built, whatever that of the names."""
        return (instance for name, instance in self._up.items() if name in names)
