"""Channels inside one task manager: both halves in one process, joined by a call."""

from dataclasses import dataclass

from penstock.engine.transport.halves import ReceivingHalf, SendingHalf


@dataclass(frozen=True, slots=True)
class Channel:
    """Both halves of a bounded first-in-first-out queue from one producer instance to one consumer instance."""

    sender: SendingHalf
    receiver: ReceivingHalf


def join(name: str, capacity_bytes: int) -> Channel:
    """Make an empty channel in which fewer than ``capacity_bytes`` wait when a batch may be put."""
    receiver = ReceivingHalf(name)
    sender = SendingHalf(name, capacity_bytes, receiver.accept)
    receiver.join(sender.add_credit)
    return Channel(sender, receiver)
