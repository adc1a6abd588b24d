"""Revenue per shop, every ten minutes of the orders' own time.

The functions say what happens to a stream; only `main` says where rows come from and where they go. So
test_pipeline.py can push rows of its own through the same steps.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import penstock as ps
from penstock import col, count, sum_, tumbling

FOLDER = Path(__file__).parent


@dataclass
class Order:
    """A row of data/orders.csv."""

    at: datetime
    shop: str
    item: str
    quantity: int
    price: float
    status: str


def placed(orders: ps.Stream) -> ps.Stream:
    """Leave out the orders that were cancelled."""
    return orders.filter(col("status") != "cancelled").name("placed")


def revenue(orders: ps.Stream) -> ps.Stream:
    """Count and add up orders per shop and window; orders that come after their window are its output "late"."""
    return (
        orders.key_by("shop")
        .window(tumbling("10m"))
        .agg(orders=count(), revenue=sum_(col("quantity") * col("price")))
        .name("revenue")
    )


def main() -> None:
    """Read the sample file, print the revenue, and keep what came too late."""
    orders = ps.read_csv(FOLDER / "data" / "orders.csv", schema=Order, time="at", watermark="2m")
    totals = revenue(placed(orders))
    totals.print()
    totals.side_output("late").write_csv(FOLDER / "late_orders.csv")
    # One row a batch, so that time passes inside this short file; leave that out for files of any size.
    ps.run("my-pipeline", batch_rows=1)


if __name__ == "__main__":
    main()
