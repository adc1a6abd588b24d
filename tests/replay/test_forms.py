"""Every kind of operator has one form for Spark, or a reason why it has none."""

import pytest

from penstock.engine.operators.registry import descriptors
from penstock.model.errors import BugError
from penstock.model.ids import OperatorId
from penstock.model.job_graph import BranchSpec, OperatorNode, OperatorSpec, SinkSpec, SourceSpec
from penstock.replay.frames import ReplayError
from penstock.replay.operators.registry import FORMS, form_of, forms
from penstock.replay.spark_form import NoForm


class UnheardOfSpec(OperatorSpec):
    pass


NODE = OperatorNode(OperatorId("o-1"), "odd", UnheardOfSpec(), (), {}, where="hot.py:7")


def test_every_described_operator_has_one_form_and_every_form_one_line() -> None:
    assert forms().keys() == descriptors().keys()
    assert len(forms()) == len(FORMS)
    assert list(FORMS) == sorted(FORMS)


def test_what_has_no_form_says_why() -> None:
    without = {spec: form.why for spec, form in forms().items() if isinstance(form, NoForm)}
    assert without.keys() == {BranchSpec, SourceSpec, SinkSpec}
    assert all(without.values())


def test_an_operator_without_a_form_is_refused_with_its_reason() -> None:
    form = NoForm(UnheardOfSpec, "it keeps what nobody knows")
    why = form.refuse(UnheardOfSpec(), NODE, [])
    assert why == "it keeps what nobody knows"
    with pytest.raises(ReplayError, match=r"'odd' cannot be replayed: it keeps what nobody knows \(at hot.py:7\)"):
        form.compile(UnheardOfSpec(), NODE, [], None)  # type: ignore[arg-type]


def test_a_spec_without_a_line_is_a_bug_with_a_remedy() -> None:
    with pytest.raises(BugError, match="how UnheardOfSpec is replayed; add its form to FORMS, or a NoForm"):
        form_of(UnheardOfSpec())
