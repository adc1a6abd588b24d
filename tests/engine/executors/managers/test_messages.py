"""Messages as bytes: what one side says the other reads, and nothing else."""

from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.connectors.dead_letter import FirstBadRecord
from penstock.engine.control.machine_load import MachineReading
from penstock.engine.dataflow.accounting import TimeSpent
from penstock.engine.dataflow.partition_handover import GivenPartition, HeldSource
from penstock.engine.executors.managers.adoption_messages import (
    GuardTerms,
    HeldDeployment,
    Holding,
    KeptCut,
    SetKeep,
)
from penstock.engine.executors.managers.failures import Failure
from penstock.engine.executors.managers.file_views import HeldFolder, InputFile, SizeAndTime
from penstock.engine.executors.managers.messages import (
    Message,
    RegionProgress,
    Restore,
    ToHead,
    ToManager,
    UnreadableMessageError,
    decode_for_head,
    decode_for_manager,
    encode,
)
from penstock.engine.jobs.ledger import EdgeLine, Ledger, OperatorLine
from penstock.engine.jobs.metrics import InstanceMetrics, JobMetrics, SourceMetrics, StateMetrics
from penstock.engine.jobs.part_status import PartStatus
from penstock.engine.jobs.rows_decided import RowsDecided
from penstock.engine.restore.source_positions import PartitionPosition
from penstock.model.outstanding import Outstanding
from penstock.model.sic import CheckTimes, SicGroup, SicTerms
from penstock.shedding.kept_log import Stretch
from penstock.state.checkpoints.manifest import FileEntry, InstanceEntry
from penstock.state.checkpoints.results import Traffic
from penstock.state.leases.run_records import Owner
from penstock.state.store import Accesses

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
FAILURES = st.builds(Failure, st.tuples(st.text(max_size=5)), st.text(max_size=9))
ENTRIES = st.builds(
    InstanceEntry,
    operator=st.text(max_size=5),
    instance=st.integers(0, 9),
    key_groups=st.just(((0, 4), (8, 9))),
    files=st.just((FileEntry(name="state", digest="0" * 64, bytes=7, run=2),)),
)
COUNTS = st.integers(0, 1 << 62)
NAME = st.text(max_size=5)
MAYBE = st.none() | st.integers(-(1 << 62), 1 << 62)
TIMES = st.builds(TimeSpent, *[COUNTS] * 5)
ACCESSES = st.none() | st.builds(Accesses, COUNTS, COUNTS, COUNTS)
METRICS = st.builds(
    JobMetrics,
    NAME,
    COUNTS,
    COUNTS,
    st.builds(
        Ledger,
        st.lists(st.builds(OperatorLine, NAME, *[COUNTS] * 7), max_size=2).map(tuple),
        st.lists(st.builds(EdgeLine, NAME, COUNTS, COUNTS), max_size=2).map(tuple),
    ),
    st.lists(st.builds(InstanceMetrics, NAME, COUNTS, TIMES, MAYBE, COUNTS), max_size=2).map(tuple),
    COUNTS,
    st.lists(st.builds(SourceMetrics, NAME, COUNTS, MAYBE, MAYBE), max_size=2).map(tuple),
    st.lists(st.builds(StateMetrics, NAME, COUNTS, ACCESSES), max_size=2).map(tuple),
)
DECIDED = st.dictionaries(NAME, st.builds(RowsDecided, *[COUNTS] * 5), max_size=2)
OUTSTANDING = st.lists(st.builds(Outstanding, COUNTS, COUNTS, NAME), max_size=2).map(tuple)
FLAG = st.booleans()
SHARE = st.floats(0, 1)
STATUSES = st.builds(PartStatus, FLAG, FLAG, FLAG, COUNTS, COUNTS, OUTSTANDING, DECIDED)
NAMES = st.lists(st.text(max_size=5), max_size=3).map(tuple)
WHOLE = st.lists(COUNTS, max_size=3).map(tuple)
RECEIPTS = st.dictionaries(NAME, JSON, max_size=2)
OWNERS = st.dictionaries(COUNTS, WHOLE, max_size=2)
DEPLOYMENTS = st.builds(
    HeldDeployment, COUNTS, COUNTS, WHOLE, NAMES, COUNTS, st.none() | NAME, last_move=COUNTS, owners=OWNERS
)
RATES = st.dictionaries(NAME, st.sampled_from([0.25, 0.5, 1.0]), max_size=3)
BRANCHES = st.lists(st.tuples(NAME, NAME, st.sampled_from([0.25, 0.5])), max_size=2).map(tuple)
STRETCHES = st.lists(
    st.builds(Stretch, NAME, st.none() | NAME, COUNTS | NAME, COUNTS, COUNTS, st.sampled_from([0.25, 1.0]), RATES),
    max_size=2,
).map(tuple)
CUTS = st.builds(KeptCut, NAME, COUNTS, FLAG, RECEIPTS, STRETCHES)
TERMS = st.none() | st.builds(
    GuardTerms,
    RATES,
    st.lists(st.tuples(NAME, NAME, NAME, st.floats(0, 1), st.floats(-9, 9)), max_size=2).map(tuple),
    NAMES,
    RATES,
)
SIC = st.none() | st.builds(
    SicTerms,
    NAMES,
    st.dictionaries(NAME, st.lists(st.floats(0, 1), max_size=2).map(tuple), max_size=2),
    st.lists(st.builds(SicGroup, NAME, st.just((0, 1)), NAMES, st.floats(0, 1)), max_size=2).map(tuple),
    accuracy=st.just((0.5,)),
    sheds=st.sampled_from(["", "fair"]),
    spread=FLAG,
)
SHEDDING = st.none() | st.builds(SetKeep, RATES, BRANCHES, TERMS, SIC)
HOLDINGS = st.builds(
    Holding,
    COUNTS,
    NAME,
    NAME,
    st.lists(DEPLOYMENTS, max_size=2).map(tuple),
    COUNTS,
    st.dictionaries(NAME, COUNTS, max_size=2),
    st.lists(CUTS, max_size=2).map(tuple),
    RECEIPTS,
    SHEDDING,
)
GIVEN = st.builds(
    GivenPartition, st.builds(PartitionPosition, JSON, COUNTS, COUNTS, st.booleans(), COUNTS), *[st.booleans()] * 3
)
SOURCES = st.lists(st.builds(HeldSource, NAME, NAMES, NAMES, COUNTS, FLAG, FLAG), max_size=2).map(tuple)
OWNERS = st.builds(Owner, job=NAME, user=NAME, host=NAME, machine=NAME, pid=COUNTS, process_start=NAME, since_us=COUNTS)
SEEN = st.none() | st.tuples(COUNTS, COUNTS)
FIELDS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(0, 1 << 40),
    float: st.floats(0, 1e9),
    bool: st.booleans(),
    str: st.text(max_size=8),
    bytes: st.binary(max_size=9),
    tuple[int, ...]: st.lists(st.integers(0, 99), max_size=3).map(tuple),
    tuple[int, ...] | None: st.none() | st.lists(st.integers(0, 99), max_size=3).map(tuple),
    Restore | None: st.none()
    | st.builds(Restore, st.binary(max_size=9), st.none() | NAME, NAMES, NAMES, st.booleans()),
    str | None: st.none() | st.text(max_size=8),
    tuple[str, ...]: NAMES,
    tuple[tuple[int, int, int], ...]: st.lists(st.tuples(*[st.integers(0, 99)] * 3), max_size=3).map(tuple),
    tuple[str, ...] | None: st.none() | NAMES,
    tuple[InstanceEntry, ...]: st.lists(ENTRIES, max_size=2).map(tuple),
    dict[str, str]: st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    dict[str, int]: st.dictionaries(st.text(max_size=5), st.integers(-9, 9), max_size=3),
    dict[str, int | None]: st.dictionaries(st.text(max_size=5), MAYBE, max_size=3),
    dict[int, int]: st.dictionaries(st.integers(0, 99), st.integers(0, 99), max_size=3),
    dict[int, tuple[int, ...]]: st.dictionaries(
        st.integers(0, 99), st.lists(st.integers(0, 99), max_size=3).map(tuple), max_size=3
    ),
    dict[int, bytes]: st.dictionaries(st.integers(0, 99), st.binary(max_size=9), max_size=3),
    dict[str, Any]: st.dictionaries(st.text(max_size=5), JSON, max_size=3),
    dict[str, dict[str, int]]: st.just({"a": {"rows_in": 3}}),
    dict[str, dict[str, Any]]: st.dictionaries(st.text(max_size=3), st.dictionaries(st.text(max_size=3), JSON)),
    dict[str, tuple[str, ...]]: st.dictionaries(NAME, NAMES, max_size=2),
    dict[str, GivenPartition]: st.dictionaries(NAME, GIVEN, max_size=2),
    dict[str, dict[str, GivenPartition]]: st.dictionaries(NAME, st.dictionaries(NAME, GIVEN, max_size=2), max_size=2),
    tuple[HeldSource, ...]: SOURCES,
    JobMetrics: METRICS,
    MachineReading: st.builds(
        MachineReading, COUNTS, NAME, WHOLE, COUNTS, WHOLE, COUNTS, COUNTS, SHARE, SHARE, st.floats(0, 1e15), NAME
    ),
    Traffic: st.builds(Traffic, *[st.integers(0, 1 << 40)] * 4),
    int | None: MAYBE,
    float | None: st.none() | st.floats(0, 64),
    PartStatus: STATUSES,
    FirstBadRecord: st.builds(FirstBadRecord, NAME, NAME, NAME, NAME, st.none() | NAME, st.booleans()),
    tuple[RegionProgress, ...]: st.lists(
        st.builds(RegionProgress, *[st.integers(-(1 << 63), (1 << 63) - 1)] * 3), max_size=2
    ).map(tuple),
    bytes | None: st.none() | st.binary(max_size=9),
    tuple[HeldDeployment, ...]: st.lists(DEPLOYMENTS, max_size=2).map(tuple),
    tuple[KeptCut, ...]: st.lists(CUTS, max_size=2).map(tuple),
    Holding: HOLDINGS,
    dict[str, float]: RATES,
    dict[str, tuple[float, ...]]: st.dictionaries(NAME, st.lists(st.floats(0, 1), max_size=2).map(tuple), max_size=2),
    SetKeep | None: SHEDDING,
    GuardTerms | None: TERMS,
    SicTerms | None: SIC,
    tuple[Stretch, ...]: STRETCHES,
    tuple[tuple[str, str, float], ...]: BRANCHES,
    tuple[HeldFolder, ...]: st.lists(st.builds(HeldFolder, NAME, NAME, NAME, COUNTS, OWNERS), max_size=2).map(tuple),
    tuple[InputFile, ...]: st.lists(st.builds(InputFile, NAME, SEEN), max_size=2).map(tuple),
    tuple[Owner | None, ...]: st.lists(st.none() | OWNERS, max_size=2).map(tuple),
    tuple[SizeAndTime | None, ...]: st.lists(SEEN, max_size=2).map(tuple),
    CheckTimes: st.builds(CheckTimes, COUNTS, COUNTS, COUNTS),
    Failure: FAILURES,
    Failure | None: st.none() | FAILURES,
}


def messages(side: Any) -> st.SearchStrategy[Message]:
    kinds = get_args(side)
    fields = {kind: {name: get_type_hints(kind)[name] for name in kind.__struct_fields__} for kind in kinds}
    return st.one_of([st.builds(kind, **{name: FIELDS[hint] for name, hint in fields[kind].items()}) for kind in kinds])


@given(messages(ToManager))
def test_what_the_head_says_is_read_as_it_was_said(message: Any) -> None:
    assert decode_for_manager(encode(message)) == message


@given(messages(ToHead))
def test_what_a_task_manager_says_is_read_as_it_was_said(message: Any) -> None:
    assert decode_for_head(encode(message)) == message


@given(messages(ToHead), st.data())
def test_damaged_bytes_are_refused_or_another_message(message: Any, data: st.DataObject) -> None:
    encoded = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = decode_for_head(bytes(encoded))
    except UnreadableMessageError:
        return
    assert isinstance(read, get_args(ToHead))


@given(messages(ToManager))
def test_the_head_does_not_read_its_own_words(message: Any) -> None:
    if not isinstance(message, get_args(ToHead)):
        with pytest.raises(UnreadableMessageError):
            decode_for_head(encode(message))


@given(messages(ToHead))
def test_a_task_manager_does_not_read_its_own_words(message: Any) -> None:
    if not isinstance(message, get_args(ToManager)):
        with pytest.raises(UnreadableMessageError):
            decode_for_manager(encode(message))
