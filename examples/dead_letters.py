"""Bad records as a stream: what cannot be processed leaves by the side output "dead_letter", the job goes on.

Each one comes with the operator that gave up on it, the error, and its text, so that it can be mended and sent again.
Run it with ``penstock run examples/dead_letters.py`` or ``python examples/dead_letters.py``.
"""

from dataclasses import dataclass

import penstock as ps

LINES = ["pen,3,0.50", "ink,one,4.20", "paper,12,0.10", "glue;2;1.10", "ruler,0,1.50"]


@dataclass
class Sale:
    item: str
    unit_price: float


def parse(line: str) -> Sale:
    item, quantity, amount = line.split(",")
    return Sale(item, float(amount) / int(quantity))


sales = ps.read_memory([{"line": line} for line in LINES]).map(parse).name("parse")
good = sales.collect()
bad = sales.side_output("dead_letter").collect()

if __name__ == "__main__":
    metrics = ps.run("dead-letters")
    for row in good.rows():
        print(f"sold     {row['item']:<6} {row['unit_price']:.4f}")
    for row in bad.rows():
        print(f"refused  {row['text']}  by {row['operator']}: {row['error']}")
    print(f"{metrics.source_rows} lines, {metrics.ledger.dead_lettered} refused")
