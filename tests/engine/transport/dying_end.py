"""``python -m tests.engine.transport.dying_end KIND DESCRIPTOR FOLDER [send]``: one end of a link, until it is killed.

FOLDER has certificates. With ``send`` it has sent a watermark and a part of a batch by then.
"""

import signal
import socket
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.engine.core.elements import Batch, Watermark
from tests.engine.transport.linked_pairs import join

if __name__ == "__main__":
    end = socket.socket(fileno=int(sys.argv[2]))
    link = join(sys.argv[1], end, "parent", connects=False, certificates=Path(sys.argv[3]))
    if "send" in sys.argv:
        link.send(0, Watermark(1), None, 0, 0)
        link.send(0, Batch(pa.record_batch({"x": np.arange(100_000)})), None, 100_000, 800_000)
        link.flush()
    signal.pause()
