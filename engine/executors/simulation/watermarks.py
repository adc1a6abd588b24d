"""An invariant that the simulator checks: no operator takes a watermark back by a restart."""

from collections import defaultdict
from collections.abc import Collection, Iterator

from penstock.engine.core.contract import Notes
from penstock.engine.core.elements import START_OF_TIME_US
from penstock.engine.dataflow.chain import ChainNode
from penstock.engine.dataflow.cut import InstanceCut
from penstock.engine.dataflow.instance import Instance
from penstock.model.errors import BugError

_TIME = "_us"
"""How the notes end that are times: watermarks and clocks, none of which goes back."""


class Watermarks:
    """The watermarks that operators had passed on, and noted, at each cut, over all attempts of a job."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._at_cut: dict[int, dict[str, int]] = defaultdict(dict)
        self._noted: dict[int, dict[str, dict[int, dict[str, int]]]] = defaultdict(dict)
        self._least: dict[str, int] = {}
        self._seen: dict[int, ChainNode] = {}

    def cut(self, cut: InstanceCut, instance: Instance) -> None:
        """Note what an instance has passed on, and noted, at the barrier of an epoch, or at its end."""
        watermarks, noted = self._at_cut[cut.epoch], self._noted[cut.epoch]
        for node in instance.nodes:
            watermarks[node.name] = min(watermarks.get(node.name, node.watermark_us), node.watermark_us)
        for operator in cut.operators:
            noted.setdefault(operator.operator, {})[operator.instance] = dict(_times(operator.notes))

    def restored(self, epoch: int | None, instances: Collection[Instance]) -> None:
        """Instances begin from an epoch (None: from nothing); what their operators knew of later ones is void.

        Raises:
            BugError: an operator has forgotten a time that it had noted.
        """
        names = {node.name for instance in instances for node in instance.nodes}
        kept = {} if epoch is None else self._at_cut[epoch]
        for watermarks in self._at_cut.values():
            if watermarks is not kept:
                for name in names:
                    watermarks.pop(name, None)
        self._least = {name: least for name, least in self._least.items() if name not in names}
        self._least |= {name: least for name, least in kept.items() if name in names}
        self._seen = {key: node for key, node in self._seen.items() if node.name not in names}
        if epoch is not None:
            self._check_notes(epoch, instances)

    def check(self, instance: Instance) -> None:
        """Compare the first watermark that each operator of an instance passes on.

        Raises:
            BugError: it is earlier than the one before the restart.
        """
        for node in instance.nodes:
            if node.watermark_us == START_OF_TIME_US or id(node) in self._seen:
                continue
            self._seen[id(node)] = node
            least_us = self._least.get(node.name, START_OF_TIME_US)
            if node.watermark_us < least_us:
                raise BugError(
                    f"the watermark behind {node.name!r} went back from {least_us} to {node.watermark_us} by a restart"
                )

    def _check_notes(self, epoch: int, instances: Collection[Instance]) -> None:
        """Compare what operators know before their first element with what they all knew at the epoch.

        What has no keys is not dealt out to more instances than it had.
        """
        noted = self._noted[epoch]
        counts: dict[str, int] = defaultdict(int)
        for instance in instances:
            for node in instance.nodes:
                counts[node.name] += 1
        for instance in instances:
            for node in instance.nodes:
                before = noted.get(node.name, {})
                if len(before) != counts[node.name]:
                    continue
                for name, time_us in _times(node.operator.notes()):
                    least_us = min(
                        (watermarks[name] for watermarks in before.values() if name in watermarks), default=time_us
                    )
                    if time_us < least_us:
                        raise BugError(
                            f"{node.name!r} went back from {name} = {least_us} to {time_us} by a restart from epoch "
                            f"{epoch}"
                        )


def _times(notes: Notes) -> Iterator[tuple[str, int]]:
    for name, value in notes.items():
        if name.endswith(_TIME) and isinstance(value, int):
            yield name, value
