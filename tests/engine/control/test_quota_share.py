"""The share of a job in a quota: jobs that grow and shrink at the same time never have more together than there is."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.control.quota_share import Held, QuotaShare, QuotaView
from penstock.scheduler.shared_quota import Ask, Book, Lease, others_of, renewed, taken, without
from tests.papers_cases import cases

CORES, MEMORY = 8.0, 80.0


@dataclass
class Keeper:
    """Keeps the book of all jobs; answers come when they are let."""

    book: Book
    waiting: list[Callable[[], None]]
    term_s: float = 1e9

    def renew(self, lease: Lease) -> QuotaView:
        before = self.book.get(lease.job)
        self.book = renewed(self.book, lease, 0.0)
        return QuotaView(before, others_of(self.book, lease.job))

    def take(self, ask: Ask) -> "Future[Lease]":
        answer: Future[Lease] = Future()

        def tell() -> None:
            self.book = taken(self.book, ask, 0.0)
            answer.set_result(self.book[ask.job])

        self.waiting.append(tell)
        return answer

    def leave(self, job: str) -> None:
        self.book = without(self.book, job)


@dataclass
class Sized:
    """A job, what it has, and what it is coming to: while it changes it may have either."""

    share: QuotaShare
    has: Held
    goal: Held | None = None
    asks: bool = False

    def most(self) -> tuple[float, float]:
        goal = self.goal or self.has
        return max(self.has.cores, goal.cores), max(self.has.memory_bytes, goal.memory_bytes)


SIZES = st.tuples(st.floats(0.5, CORES), st.floats(1.0, MEMORY)).map(lambda given: Held(*given))
STEPS = st.tuples(
    st.integers(0, 2), st.sampled_from(("ask", "ask", "let", "let", "renew", "done", "failed", "decline")), SIZES
)


def step(job: Sized, keeper: Keeper, what: str, size: Held) -> None:
    """Let something happen to a job, if it can."""
    if what == "let" and keeper.waiting:
        keeper.waiting.pop(0)()
    if what == "renew":
        job.share.see(job.has)
        job.share.renew(size)
    if what == "ask" and not job.asks and job.goal is None:
        job.share.ask(size)
        job.asks = True
    if job.asks and (granted := job.share.answer()) is not None:
        job.asks = False
        if what == "decline":
            job.share.decline()
        else:
            job.goal = granted
    elif job.goal is not None and what in ("done", "failed"):
        job.has = job.goal if what == "done" else job.has
        job.share.ended(is_done=what == "done")
        job.goal = None


@given(steps=st.lists(STEPS, min_size=20, max_size=60))
@settings(max_examples=cases(), deadline=None)
def test_jobs_that_share_a_quota_never_have_more_than_it_together(steps: list[tuple[int, str, Held]]) -> None:
    keeper = Keeper({}, [])
    jobs = [Sized(QuotaShare(keeper, f"job-{number}", 0, CORES, MEMORY), Held(2.6, 26.0)) for number in range(3)]
    for job in jobs:
        job.share.see(job.has)
        job.share.renew()
    for number, what, size in steps:
        step(jobs[number], keeper, what, size)
        for place, most in enumerate((CORES, MEMORY)):
            assert sum(job.most()[place] for job in jobs) <= most + 1e-9
            leased = sum((lease.cores, lease.memory_bytes)[place] for lease in keeper.book.values())
            assert leased <= most + 1e-9
