"""An invariant that the simulator checks: no operator takes a watermark back by a restart."""

from collections import defaultdict
from collections.abc import Collection

from penstock.engine.chain import ChainNode
from penstock.engine.elements import START_OF_TIME_US
from penstock.engine.instance import Instance
from penstock.model.errors import BugError


class Watermarks:
    """What operators had passed on at each cut, over all attempts of a job."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._at_cut: dict[int, dict[str, int]] = defaultdict(dict)
        self._least: dict[str, int] = {}
        self._seen: dict[int, ChainNode] = {}

    def cut(self, epoch: int, instance: Instance) -> None:
        """Note what an instance has passed on at the barrier of an epoch, or at its end."""
        known = self._at_cut[epoch]
        for node in instance.nodes:
            known[node.name] = min(known.get(node.name, node.watermark_us), node.watermark_us)

    def restored(self, epoch: int | None, instances: Collection[Instance]) -> None:
        """Instances begin from an epoch (None: from nothing); what their operators knew of later ones is void."""
        names = {node.name for instance in instances for node in instance.nodes}
        kept = {} if epoch is None else self._at_cut[epoch]
        for known in self._at_cut.values():
            if known is not kept:
                for name in names:
                    known.pop(name, None)
        self._least = {name: least for name, least in self._least.items() if name not in names}
        self._least |= {name: least for name, least in kept.items() if name in names}
        self._seen = {key: node for key, node in self._seen.items() if node.name not in names}

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
