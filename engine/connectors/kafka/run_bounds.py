"""The bounds of one run in the partitions of topics. Filled by `Cluster`; goes along with its copies."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class RunBounds:
    """What one run of the job reads: where partitions start and end, as far as that was looked up, by name.

    ``late`` are those that came after the job began, which start at their first message. ``agreed`` are those that
    processes deal out among each other (None: there is but one process).
    """

    starts: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    agreed: tuple[str, ...] | None = None

    def come_late(self, partitions: Iterable[str]) -> None:
        """Let partitions that are not known to be late start at their first message."""
        for name in partitions:
            if name not in self.late:
                self.late.add(name)
                self.starts.pop(name, None)

    def copy(self) -> "RunBounds":
        """Return these as they are now."""
        return RunBounds(dict(self.starts), dict(self.ends), set(self.late), self.agreed)
