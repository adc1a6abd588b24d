"""The merge of the watermarks of several inputs: their minimum, leaving out idle and ended inputs."""

from collections.abc import Sequence

from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US


class WatermarkMerge:
    """The merged watermark of ``inputs`` inputs; it never goes back."""

    def __init__(self, inputs: int) -> None:
        """Start with nothing known of any input."""
        self._times = [START_OF_TIME_US] * inputs
        self._idle = [False] * inputs
        self.time_us = START_OF_TIME_US

    @property
    def idle(self) -> bool:
        """True if every input that has not ended is idle, and at least one is."""
        open_inputs = [index for index, time in enumerate(self._times) if time != END_OF_TIME_US]
        return bool(open_inputs) and all(self._idle[index] for index in open_inputs)

    def add(self) -> int:
        """Take in one more input, which is idle until it advances; return its index."""
        self._times.append(START_OF_TIME_US)
        self._idle.append(True)
        return len(self._times) - 1

    def least(self, indices: Sequence[int]) -> int:
        """Return the least watermark of some inputs, idle ones included."""
        return min(self._times[index] for index in indices)

    def advance(self, index: int, time_us: int) -> bool:
        """Input ``index`` reached ``time_us`` and is not idle; return whether the merged watermark advanced.

        An input that comes back from being idle cannot pull the merged watermark back.
        """
        self._idle[index] = False
        if time_us > self._times[index]:
            self._times[index] = time_us
        return self._merge()

    def set_idle(self, index: int) -> bool:
        """Leave input ``index`` out until it advances again; return whether the merged watermark advanced."""
        self._idle[index] = True
        return self._merge()

    def set_active(self, index: int) -> None:
        """Count input ``index`` again: it has rows."""
        self._idle[index] = False

    def _merge(self) -> bool:
        counted = [time for time, idle in zip(self._times, self._idle, strict=True) if not idle]
        if not counted:
            return False
        merged = min(counted)
        if merged <= self.time_us:
            return False
        self.time_us = merged
        return True
