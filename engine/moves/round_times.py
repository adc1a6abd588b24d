"""When a round of a move may begin. Pure."""

MOST_REST_NS = 1_000_000_000
"""For no longer nothing moves behind a round: a savepoint, or a stop, may have been asked for meanwhile."""


def may_begin(*, travelling: bool, pressing: bool, let_through: bool) -> bool:
    """Return whether a round may begin now, by what checkpoints do.

    A checkpoint whose barriers are ``travelling``, or of which state is stored yet, is not disturbed: the marker would
    make it be given up, or wait for it. One that is due is put off, as a large state takes longer to store than rounds
    to move it; once it is ``pressing`` it goes first, but for one at most between two rounds: behind one that was
    ``let_through`` since the round before the move goes on, however often checkpoints are wanted.
    """
    return not travelling and (let_through or not pressing)


def rest_ns(round_ns: int) -> int:
    """Return for how long no round begins behind one that took so long.

    A round takes what it can of the cores of a giver and a taker, and rows of keys that stay have what it leaves; then
    they have all, for as long as it took, to catch up.
    """
    return min(round_ns, MOST_REST_NS)
