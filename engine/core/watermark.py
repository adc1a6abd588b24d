"""The merge of the watermarks of several inputs: their minimum, leaving out idle and ended inputs.

What an input reports costs the same however many inputs there are; they are all looked at only when the last of those
that held the minimum back has passed it.
"""

from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US


class WatermarkMerge:
    """The merged watermark of ``inputs`` inputs; it never goes back."""

    def __init__(self, inputs: int) -> None:
        """Start with nothing known of any input."""
        self._times = [START_OF_TIME_US] * inputs
        self._idle = [False] * inputs
        self.time_us = START_OF_TIME_US
        # Inputs that are not idle, and of these how many are not beyond the merged watermark.
        self._active = inputs
        self._holding = inputs
        # Inputs that have not ended, and of these how many are idle.
        self._open = inputs
        self._open_idle = 0

    @property
    def idle(self) -> bool:
        """True if every input that has not ended is idle, and at least one is."""
        return 0 < self._open == self._open_idle

    def add(self) -> int:
        """Take in one more input, which is idle until it advances; return its index."""
        self._times.append(START_OF_TIME_US)
        self._idle.append(True)
        self._open += 1
        self._open_idle += 1
        return len(self._times) - 1

    def join(self) -> int:
        """Take in one more input, which holds the merged watermark where it is until it advances; return its index."""
        self._times.append(self.time_us)
        self._idle.append(False)
        self._active += 1
        self._holding += 1
        self._open += 1
        return len(self._times) - 1

    def leave(self, index: int) -> bool:
        """Leave input ``index`` out for good; return whether the merged watermark advanced."""
        if not self._idle[index]:
            self._idle[index] = True
            self._count_active(index, -1)
        if self._times[index] != END_OF_TIME_US:
            self._open -= 1
            self._open_idle -= 1
        return self._merge()

    def advance(self, index: int, time_us: int) -> bool:
        """Input ``index`` reached ``time_us`` and is not idle; return whether the merged watermark advanced.

        An input that comes back from being idle cannot pull the merged watermark back.
        """
        self.set_active(index)
        before_us = self._times[index]
        if time_us > before_us:
            self._times[index] = time_us
            self._open -= time_us == END_OF_TIME_US
            self._holding -= before_us <= self.time_us < time_us
        return self._merge()

    def set_idle(self, index: int) -> bool:
        """Leave input ``index`` out until it advances again; return whether the merged watermark advanced."""
        if not self._idle[index]:
            self._idle[index] = True
            self._count_active(index, -1)
        return self._merge()

    def set_active(self, index: int) -> None:
        """Count input ``index`` again: it has rows."""
        if self._idle[index]:
            self._idle[index] = False
            self._count_active(index, 1)

    def _count_active(self, index: int, change: int) -> None:
        time_us = self._times[index]
        self._active += change
        self._holding += change * (time_us <= self.time_us)
        self._open_idle -= change * (time_us != END_OF_TIME_US)

    def _merge(self) -> bool:
        if self._holding or not self._active:
            return False
        counted = [time_us for time_us, idle in zip(self._times, self._idle, strict=True) if not idle]
        self.time_us = min(counted)
        self._holding = counted.count(self.time_us)
        return True


class RisingTimes:
    """The least of so many times, none of which goes back."""

    def __init__(self, count: int) -> None:
        """Start with nothing known of any."""
        self._times = [START_OF_TIME_US] * count
        self._holding = count
        self.least_us = START_OF_TIME_US

    def join(self) -> int:
        """Take in one more time, which is the least for now; return its index."""
        self._times.append(self.least_us)
        self._holding += 1
        return len(self._times) - 1

    def rise(self, index: int, time_us: int) -> None:
        """One of them is ``time_us`` at least."""
        before_us = self._times[index]
        if time_us <= before_us:
            return
        self._times[index] = time_us
        self._holding -= before_us == self.least_us
        if not self._holding:
            self.least_us = min(self._times)
            self._holding = self._times.count(self.least_us)
