"""``python -m tests.engine.transport.meeting_member NAME TRANSPORT ROUNDS``: a task manager that meets the others.

It prints its address, reads those of all, meets the others so many times, and prints whether anything is left.
"""

import sys

from penstock.engine.transport.addresses import Transport
from tests.engine.transport.linked_pairs import descriptors
from tests.engine.transport.meetings import exchange, never, place

if __name__ == "__main__":
    me, rounds = sys.argv[1], int(sys.argv[3])
    own = place(me, Transport(sys.argv[2]))
    print(own.address, flush=True)
    peers = dict(pair.split("=", 1) for pair in sys.stdin.readline().split())
    del peers[me]
    before = descriptors()
    for attempt in range(rounds):
        exchange(me, attempt, own.meet(attempt, peers, never))
    print(f"met {rounds} times, {'nothing' if descriptors() == before else 'something'} left")
