"""The descriptor of joins on equal keys, within a window or for ever; several operators carry them out."""

from collections.abc import Sequence, Set

from penstock.engine.core.contract import Operator
from penstock.engine.operators.descriptions import Words, expression_text, windowing_text
from penstock.engine.operators.joins.incremental_join import IncrementalJoin
from penstock.engine.operators.joins.inner_join import InnerJoin
from penstock.engine.operators.joins.join_schema import join_output
from penstock.engine.operators.joins.two_sided import SampledDescriptor, join_headline, output_detail
from penstock.engine.operators.joins.unique_key_join import OneJoin
from penstock.engine.operators.joins.window_join import WindowJoin
from penstock.engine.operators.state_descriptions import expression_words, window_traits
from penstock.model.expressions import columns_of
from penstock.model.job_graph import OperatorNode
from penstock.model.join_specs import JoinSpec
from penstock.model.schema import StreamSchema


class JoinDescriptor(SampledDescriptor[JoinSpec]):
    """Rows of equal keys meet; within a window, or whenever they come."""

    spec = JoinSpec
    verb = "join"
    output = staticmethod(join_output)

    def make(self, spec: JoinSpec, inputs: Sequence[StreamSchema], name: str) -> Operator:
        """Return a fresh operator: the one that keeps least."""
        left, right = inputs
        if spec.windowing is not None:
            return WindowJoin(spec, left, right, name)
        if spec.one_side is not None:
            return OneJoin(spec, left, right, name)
        if spec.how == "inner" and not left.changelog and not right.changelog:
            return InnerJoin(spec, left, right, name)
        return IncrementalJoin(spec, left, right, name)

    def read_beside(self, spec: JoinSpec, side: int, schema: StreamSchema) -> Set[str]:
        """Return the event time within a window, and what the condition on the side whose keys come once reads."""
        timed = super().read_beside(spec, side, schema) if spec.windowing is not None else frozenset()
        return timed | columns_of(spec.where) if spec.where is not None and side == spec.one_side else timed

    def samples_keys(self, spec: JoinSpec, port: int) -> bool:
        """Return whether all pairs stay; where keys come once, what repeats them would depend on what was dropped."""
        return spec.how == "inner" and spec.one_side is None

    def traits(self, spec: JoinSpec) -> dict[str, str]:
        """Return the window, and which rows are kept at all."""
        kept = "all" if spec.where is None else f"those where {expression_words(spec.where)}"
        return window_traits(spec.windowing) | {"validate": spec.validate, "rows with a partner": kept}

    def words(self, spec: JoinSpec, node: OperatorNode) -> Words:
        """Say on which keys, and for how long rows are kept."""
        if spec.one_side is not None:
            window = f"none: rows are kept until they meet, for keys are {spec.validate}"
        else:
            window = "none: both sides are kept" if spec.windowing is None else windowing_text(spec.windowing)
        where = () if spec.where is None else (("where", expression_text(spec.where)),)
        headline = join_headline("join", spec.how, spec.left_keys, spec.right_keys)
        return Words(headline, (("window", window), *where, output_detail(spec.output)))


JOIN = JoinDescriptor()
