"""Half an hour on a small simulated cluster in which every kind of policy has something to decide.

What is offered rises above and falls below what fits; somebody scales by hand, and what is new waits to be placed.
"""

from pathlib import Path

from penstock.benchmarks.papers.cluster_model.action_logs import LoggedRun, write_log
from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.curves import Steps
from penstock.benchmarks.papers.cluster_model.loop import Run, Scheduled, run
from penstock.benchmarks.papers.cluster_model.spec import ClusterSpec, QuerySpec
from penstock.engine.control.policies import make_policy
from penstock.model.plan import NoChange, RescalePlan, TaskSize
from tests.benchmarks.papers.cluster_model.policies import scripted
from tests.benchmarks.papers.cluster_model.small import application, cluster_spec, edge, machine, source, state, task

UNTIL_S, TICK_S = 1800.0, 60.0
TICKS = 30
PLACEMENT = "placement"


def spec() -> ClusterSpec:
    """Return the cluster: a source, a map, a keyed count with state, and a sink whose query may shed."""
    rate = Steps([(0.0, 300.0), (600.0, 1400.0), (1500.0, 100.0)])
    count_state = state(most_keys=3e5, new_key_share=0.2, initial_keys=1e5)
    return cluster_spec(
        [
            task("read", 1e-5),
            task("parse", 5e-4),
            task("count", 1e-3, is_keyed=True, zipf=0.8, state=count_state, initial_managed_bytes=1.6e8),
            task("write", 1e-5),
        ],
        [edge("read", "parse"), edge("parse", "count", exchange="hash"), edge("count", "write")],
        [source("read", rate, (1.0, 1.2), target_rate=True)],
        [machine(f"tm{number}", cores=1.5, memory_bytes=4e9) for number in range(3)],
        [application(cores=2.0, memory_bytes=1.5e9, heap_bytes=6e8)],
        actions={"places": "policy", "scope": "task", "restores": "moved", "owners": "sticky"},
        reports={"every_s": 10.0, "late_s": 2.0, "noise_share": 0.02},
        queries=[QuerySpec(name="counts", task="write", priority=1.0, minimum_accuracy=0.3)],
    )


def half_hour(name: str, log: Path) -> Run:
    """Run a policy of the registry, beside what places instances and a hand that scales, and write the log."""
    by_hand = scripted(NoChange("not yet"), RescalePlan("by hand", tasks=(TaskSize(1, 2),)), period_s=150.0)
    names = [name] if name == PLACEMENT else [PLACEMENT, name]
    policies = [Scheduled(each, make_policy(each, {}), TICK_S) for each in names]
    done = run(Cluster(spec(), 0, 2.0, 10.0), [by_hand, *policies], UNTIL_S)
    write_log(log, LoggedRun(done, {item.name: (item.name, item.policy) for item in policies}))
    done.records = [record for record in done.records if record.policy in names]
    return done
