"""When a round of a move may begin. Pure."""


def may_begin(*, travelling: bool, pressing: bool, let_through: bool) -> bool:
    """Return whether a round may begin now, by what checkpoints do.

    A checkpoint whose barriers are ``travelling``, or of which state is stored yet, is not disturbed: the marker would
    make it be given up, or wait for it. One that is due is put off, as a large state takes longer to store than rounds
    to move it; once it is ``pressing`` it goes first, but for one at most between two rounds: behind one that was
    ``let_through`` since the round before the move goes on, however often checkpoints are wanted.
    """
    return not travelling and (let_through or not pressing)
