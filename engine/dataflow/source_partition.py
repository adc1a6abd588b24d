"""One partition of a source while it is read: how far it is, and when it is asked again. Kept by `SourceHead`."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.engine.connectors.normalise import Normaliser
from penstock.engine.core.elements import START_OF_TIME_US
from penstock.engine.dataflow.partition_sample import PartitionSample
from penstock.model.connectors import NOTHING, Read, Reader
from penstock.model.errors import RetryableError
from penstock.model.sic import Admission

DROPPED_NS = 5_000_000
"""How long a partition is left alone all of which was dropped: nothing waits for it, and reads cost more than drops."""

RETRIES = 10
"""How often in a row a reader may raise a `RetryableError` before it ends the job."""

RETRY_NS = 1_000_000
"""How long a partition that had nothing is left alone at least, so that rows that trickle in are read together."""

LONGEST_RETRY_NS = 32 * RETRY_NS
"""How long one is left alone at most whose reader cannot say when it has something."""


@dataclass(slots=True)
class Partition:
    """One partition and how far it was read.

    ``latest_us`` is the greatest event time seen, ``began_us`` what it was before the last rows; ``is_live``: it has
    brought rows in this run. ``wakes``: the reader says when it has something, by `stir`; ``stirred``: it has said so
    since it was last asked.
    """

    name: str
    reader: Reader
    normaliser: Normaliser
    latest_us: int = START_OF_TIME_US
    began_us: int = START_OF_TIME_US
    ended: bool = False
    idle: bool = False
    nothing_since_ns: int | None = None
    retry_ns: int = 0
    failures: int = 0
    is_live: bool = False
    wakes: bool = False
    stirred: bool = True
    vain_reads: int = 0
    emptied: bool = False
    """What was read last is all there is for now."""
    taken: int = 0
    """Records read since it was opened, good and bad ones, and those that the source left out."""
    sample: PartitionSample | None = None
    """What sheds its records; None: nothing has been armed."""
    admissions: deque[Admission] | None = None
    """What is read next; when that is read it waits to be told of more. None: whatever comes."""

    stopped: bool = False
    """It is read no further here, as another instance goes on with it."""

    old: int | None = None
    """How many records were there when it was read first; None: not known."""

    def watch(self, wake: Callable[[], None]) -> None:
        """Let the reader, if it can, say when it has something: ``wake`` is called then, on any thread."""

        def stir() -> None:
            # Set first: whoever is woken must see it.
            self.stirred = True
            wake()

        self.wakes = self.reader.watch(stir)

    def ask(self, most_rows: int, now_ns: int) -> Read:
        """Read; a failure that may pass is as if nothing were there, for a while.

        Raises:
            RetryableError: it did not pass.
        """
        if self.old is None and (behind := self.reader.behind()) is not None:
            self.old = self.taken + behind
        # Unset first: what the reader says while it reads is for the next time.
        self.stirred = False
        try:
            read = self.reader.read(most_rows)
        except RetryableError:
            self.failures += 1
            if self.failures > RETRIES:
                raise
            self.retry_ns, self.stirred = now_ns + (RETRY_NS << self.failures), True
            return NOTHING
        self.failures = 0
        return read

    def settle(self, read: Read, now_ns: int) -> None:
        """Take in whether there was something: when it is asked again, how long it is silent, whether it has ended."""
        rows = read.rows is not None and read.rows.num_rows > 0
        shed = read.sampled is not None and read.sampled.shed > 0
        came = rows or shed or read.rejected or read.skipped
        nothing = not (came or read.ended or read.watermark_us is not None)
        if nothing:
            self._had_nothing(read, now_ns)
        else:
            self._had_something(read, now_ns)
        self.ended = read.ended
        self.emptied = nothing or read.again_us is not None

    def admit(self, records: int) -> None:
        """Take in that so many records were read."""
        while self.admissions and records >= self.admissions[0].records:
            records -= self.admissions.popleft().records
        if self.admissions and records:
            first = self.admissions[0]
            self.admissions[0] = replace(first, records=first.records - records)

    def has_kept(self) -> bool:
        """Return whether some of what is admitted and not read is to be kept."""
        return any(admitted.is_kept for admitted in self.admissions or ())

    def rest_after_drop(self, now_ns: int) -> None:
        """Leave it alone until more has come, as all that was there has been dropped."""
        self.retry_ns = now_ns + DROPPED_NS

    def rest(self, now_ns: int, again_us: int | None) -> None:
        """Leave it alone for a while, as there was nothing; ``again_us``: for so long, as its reader knows."""
        self.vain_reads += 1
        if again_us is not None:
            self.stirred = True
            self.retry_ns = now_ns + max(RETRY_NS, again_us * 1_000)
        elif self.wakes:
            self.retry_ns = now_ns + RETRY_NS
        else:
            # The exponent is bounded, or it would grow for as long as a source is silent.
            self.retry_ns = now_ns + min(LONGEST_RETRY_NS, RETRY_NS << min(self.vain_reads - 1, 16))

    def due_ns(self, idle_timeout_ns: int | None) -> int | None:
        """Return when it is to be asked, None: when its reader says so; one that becomes idle is asked before that."""
        if self.stopped or (self.admissions is not None and not self.admissions):
            return None
        due_ns = self.retry_ns if self.stirred or not self.wakes else None
        if idle_timeout_ns is None or self.idle or self.nothing_since_ns is None:
            return due_ns
        silent_ns = self.nothing_since_ns + idle_timeout_ns
        return silent_ns if due_ns is None else min(due_ns, silent_ns)

    def _had_nothing(self, read: Read, now_ns: int) -> None:
        if not self.failures:
            self.rest(now_ns, read.again_us)
        if read.out_of_reach:
            self.nothing_since_ns = None
        elif self.nothing_since_ns is None and not self.failures:
            self.nothing_since_ns = now_ns

    def _had_something(self, read: Read, now_ns: int) -> None:
        self.vain_reads = 0
        if read.again_us is not None:
            self.rest(now_ns, read.again_us)
        else:
            # There may be more, which nobody says.
            self.stirred = True
        self.nothing_since_ns = None
        self.idle = False
