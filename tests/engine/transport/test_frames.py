"""Frames: fixed on the wire, whole whatever portions their bytes come in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.core.elements import Barrier, CancelBarrier, Element, EndOfStream, Idle, Left, Reroute, Watermark
from penstock.engine.transport.frames import Frame, FrameReader, Kind, element_of, frame_of, pack
from penstock.model.ids import TaskId

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
FRAMES = st.builds(
    Frame,
    st.sampled_from(Kind),
    st.integers(0, (1 << 32) - 1),
    st.integers(0, (1 << 32) - 1),
    st.integers(0, (1 << 32) - 1),
    INT64,
    INT64,
    INT64,
    st.floats(0, 1),
    st.binary(max_size=40),
)


def test_the_header_is_what_other_versions_expect() -> None:
    packed = pack(Frame(Kind.ROWS, 1, 2, 3, 4, 5, 6, 1.0, b"tail"))
    assert packed.hex(" ", 4) == (
        "02000400 01000000 02000000 03000000 04000000 00000000 05000000 00000000 06000000 00000000 00000000 0000f03f "
        "7461696c"
    )


@given(st.lists(FRAMES, max_size=10), st.data())
def test_frames_come_out_of_any_portions(frames: list[Frame], data: st.DataObject) -> None:
    content = b"".join(pack(frame) for frame in frames)
    reader, read = FrameReader(), []
    while content:
        size = data.draw(st.integers(1, len(content)))
        read += list(reader.frames(content[:size]))
        content = content[size:]
    assert read == frames


@pytest.mark.parametrize(
    "element",
    [
        Watermark(-(1 << 63)),
        Watermark((1 << 63) - 1),
        Barrier(7),
        Idle(),
        CancelBarrier(8),
        Left(),
        Left(dismissed=True),
        Reroute(3, TaskId(2), ((0, 1, 0), (127, 4, 70_000))),
        Reroute(4, TaskId(0), ()),
        EndOfStream(),
        EndOfStream(drained=False),
    ],
)
def test_control_elements_travel(element: Element) -> None:
    frame = frame_of(9, element)
    assert frame.channel == 9
    assert element_of(next(FrameReader().frames(pack(frame)))) == element
