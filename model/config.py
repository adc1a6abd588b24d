"""Options: one frozen class per noun, units in the names, checked at construction."""

from dataclasses import dataclass
from typing import Any, get_args

from penstock.model.errors import OptionError
from penstock.model.option_literals import OnError

ON_ERROR = get_args(OnError)
"""The treatments of a bad record."""


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """How the worker loop cuts and bounds its work.

    ``batch_rows``: the most rows in a batch. ``linger_ms``: how long a source may wait to fill one.
    ``channel_bytes``: bytes a channel holds before its producer waits. ``idle_timeout_ms``: how long a source must
    have had nothing before its watermark no longer counts. ``key_groups``: key groups of a stateful operator, kept
    for life. ``state_bytes``: byte budget of keyed state per operator instance (None: unbounded).
    ``emit_interval_us``: how long changes of an updating result wait for more of them at most, unless it has an
    interval of its own (``emit(every=...)``); `run` takes it as ``emit_interval``.
    """

    batch_rows: int = 131_072
    linger_ms: int = 10
    channel_bytes: int = 8 << 20
    idle_timeout_ms: int = 30_000
    key_groups: int = 128
    state_bytes: int | None = None
    seed: int = 0
    emit_interval_us: int = 100_000

    def __post_init__(self) -> None:
        for name in ("batch_rows", "channel_bytes", "idle_timeout_ms", "key_groups"):
            check_count(name, getattr(self, name))
        if self.state_bytes is not None:
            check_count("state_bytes", self.state_bytes)
        check_count("linger_ms", self.linger_ms, least=0)
        check_count("emit_interval_us", self.emit_interval_us, least=0)


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """The schedule of checkpoints, and the number kept.

    ``interval_ms``: from the start of one to the start of the next. ``timeout_ms``: after which one that is not
    published is given up. ``retain``: how many complete ones are kept. ``directory``: the path or URL where they lie
    (None: there is nowhere to restart from but the beginning). ``max_failed``: so many in a row may fail before the job
    does.
    """

    interval_ms: int = 10_000
    timeout_ms: int = 600_000
    retain: int = 3
    directory: str | None = None
    max_failed: int = 10

    def __post_init__(self) -> None:
        for name in ("interval_ms", "timeout_ms", "retain", "max_failed"):
            check_count(name, getattr(self, name))
        if self.directory is not None and not self.directory:
            raise OptionError("the checkpoint directory must be a path or a URL, not empty; leave it out for none")


@dataclass(frozen=True, slots=True)
class RestartOptions:
    """How often a job that failed is restarted, and how long it waits before.

    ``attempts``: restarts in a row (None: for ever, 0: never). ``first_delay_ms``: the wait before the first one; it
    doubles with each, up to ``most_delay_ms``. ``reset_after_ms``: after running this long a failure counts as the
    first again. ``start_timeout_ms``: how long a job that has never run is tried to be started.
    """

    attempts: int | None = None
    first_delay_ms: int = 500
    most_delay_ms: int = 60_000
    reset_after_ms: int = 300_000
    start_timeout_ms: int = 4_000

    def __post_init__(self) -> None:
        if self.attempts is not None:
            check_count("attempts", self.attempts, least=0)
        check_count("first_delay_ms", self.first_delay_ms, least=0)
        check_count("most_delay_ms", self.most_delay_ms, least=self.first_delay_ms)
        check_count("reset_after_ms", self.reset_after_ms)
        check_count("start_timeout_ms", self.start_timeout_ms, least=0)


def check_count(option: str, value: Any, least: int = 1) -> None:
    """Check that an option is a whole number.

    Raises:
        OptionError: it is not, or it is below ``least``.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionError(f"{option} must be a whole number of at least {least}, not {value!r}")


def check_on_error(policy: str, where: str) -> str:
    """Return the policy.

    Raises:
        OptionError: it is none of `ON_ERROR`.
    """
    if policy not in ON_ERROR:
        raise OptionError(f"on_error of {where} must be one of {', '.join(ON_ERROR)}, not {policy!r}")
    return policy
