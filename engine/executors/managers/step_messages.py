"""Messages on a worker loop that is in one step for long."""

from penstock.engine.executors.managers.adoption_messages import Message


class StuckInStep(Message, frozen=True):
    """The worker loop has been in one step for long; ``line`` is the user's ``file:line`` in it, empty without one."""

    instance: str
    seconds: float
    line: str


class OutOfStep(Message, frozen=True):
    """The step of which `StuckInStep` spoke is over; it took this long."""

    instance: str
    seconds: float
