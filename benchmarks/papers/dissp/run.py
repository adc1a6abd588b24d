"""The whole DISSP evaluation, deterministic by seed but for the times of decisions. Called through `EVALUATION`."""

import numpy as np

from penstock.benchmarks.papers.dissp import federated, literal, one_node, shedder_time
from penstock.benchmarks.papers.dissp.cases import case
from penstock.benchmarks.papers.dissp.runs import POLICIES, one_process_a_core
from penstock.benchmarks.papers.dissp.simulation import simulate
from penstock.benchmarks.papers.dissp.workload import workload
from penstock.benchmarks.papers.evaluation import Chart, ChartLine, Progress, Result, draw_seeds


def run(seed: int, draws: int, progress: Progress) -> Result:
    """Return rows and charts; each headline row rests on so many draws of the parameters."""
    seeds = draw_seeds(seed, draws)
    few = seeds[: one_node.FEW]
    with one_process_a_core(progress) as each:
        rows = [*shedder_time.example_rows(seed), *one_node.rows(seed, seeds, each)]
        curve, batches = one_node.granularity_rows(seed, few, each)
        rows += [*curve, *one_node.delay_rows(seed, few, each), *one_node.chain_rows(seed, few, each)]
        rows += literal.rows(seed, seeds, each)
        rows += one_node.many_rows(seed, few[:2], each)
        rows += federated.rows(seed, seeds, each)
    rows += shedder_time.time_rows(seed)
    charts = (batches, _queries("single", "one node", ("fifo", "equal-share", "random", "fair"), seeds[0]))
    across = _queries("federated", "six nodes", ("random", "fair", "balance-sic"), seeds[0])
    return Result(tuple(rows), (*charts, across))


def _queries(name: str, where: str, policies: tuple[str, ...], seed: int) -> Chart:
    """Return a chart of what each query gets, the poorest first."""
    work = workload(case(name), np.random.default_rng(seed))
    lines = []
    for policy in policies:
        n_sic = np.sort(simulate(work, POLICIES[policy], seed).n_sic)
        lines.append(ChartLine(policy, [float(place) for place in range(1, len(n_sic) + 1)], n_sic.tolist()))
    return Chart(f"dissp_{name}", f"What queries get, {where}", "query, poorest first", "nSIC", tuple(lines))
