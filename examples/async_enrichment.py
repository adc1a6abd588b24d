"""Ask a slow service about every order, a hundred at a time, and add up the sales of each country."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

import penstock as ps
from penstock import count, sum_, tumbling

COUNTRIES = ("Chile", "Ghana", "Japan", "Norway")
refused = set()


@dataclass
class Order:
    customer: int
    amount: int
    at: datetime


@dataclass
class Sale:
    country: str
    amount: int
    at: datetime


async def country_of(customer: int) -> str:
    """Stands for a web service: it takes 20 ms and refuses some of its clients at first."""
    await asyncio.sleep(0.02)
    if customer % 10 == 0 and customer not in refused:
        refused.add(customer)
        raise ConnectionError("too busy")
    return COUNTRIES[customer % len(COUNTRIES)]


async def locate(customer: int, amount: int, at: datetime) -> Sale:
    return Sale(await country_of(customer), amount, at)


opening = datetime(2025, 3, 1, 9)
orders = [{"customer": n * n % 97, "amount": n % 13, "at": opening + timedelta(seconds=n)} for n in range(3_600)]
sales = ps.read_memory(orders, schema=Order, time="at").map_async(locate, capacity=100, timeout="1s", retries=1)
sales.key_by("country").window(tumbling("30m")).agg(orders=count(), amount=sum_("amount")).print()
ps.run(name="async-enrichment")
