"""How many rows a user's function is called for before the worker loop may go on. Pure."""

from penstock.engine.core.contract import SLICE_NS

_FIRST_ROWS = 1_024


class CallPace:
    """Learns how long calls take: as many rows as `SLICE_NS` is enough for go in one piece, by the piece before."""

    def __init__(self) -> None:
        """Begin with rows of which nothing is known."""
        self.most_rows = _FIRST_ROWS

    def took(self, rows: int, took_ns: int) -> None:
        """Take in how long the calls for so many rows, at least one, took."""
        self.most_rows = max(1, SLICE_NS * rows // max(took_ns, 1))
