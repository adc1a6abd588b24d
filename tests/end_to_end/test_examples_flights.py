"""The flights of New York: all three tables equal what DuckDB makes of the same files."""

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from penstock.dsl import job as job_module

ROOT = Path(__file__).resolve().parents[2]
FLIGHTS = 336_776
NEVER_LEFT = 8_255


class Ran:
    """The example's results, and the raw tables in DuckDB."""

    def __init__(self) -> None:
        self.module: dict[str, Any] = runpy.run_path(str(ROOT / "examples" / "flights.py"), run_name="flights")
        self.delays, self.rotations, self.weather = self.module["answers"]()
        self.flights: pa.Table = self.module["read_table"]("flights.csv.zip")
        self.database = duckdb.connect()
        self.database.execute("SET TimeZone = 'UTC'")
        self.database.register("raw", self.flights)
        self.database.register("weather", self.module["read_weather"]())
        minutes = "to_minutes(minute + coalesce(dep_delay, 0))"
        self.database.execute(f"CREATE TABLE flights AS SELECT *, time_hour + {minutes} AS departed FROM raw")
        for name, table in (("delays", self.delays), ("rotations", self.rotations), ("by_weather", self.weather)):
            self.database.register(name, table)

    def check(self, found: str, expected: str) -> None:
        """Compare two queries as bags, by what one has more often than the other."""
        for first, second in ((expected, found), (found, expected)):
            assert self.database.execute(f"({first}) EXCEPT ALL ({second}) LIMIT 3").fetchall() == []


@pytest.fixture(scope="module")
def ran() -> Iterator[Ran]:
    saved, job_module._default_job = job_module._default_job, job_module.Job()
    try:
        made = Ran()
    finally:
        job_module._default_job = saved
    yield made
    made.database.close()


def test_the_hours_of_the_files_are_those_of_new_york(ran: Ran) -> None:
    table = ran.flights.select(["year", "month", "day", "hour", "time_hour"]).to_pandas()
    local = pd.to_datetime(table[["year", "month", "day", "hour"]]).dt.tz_localize("America/New_York")
    assert (local == table["time_hour"]).all()


def test_delays_per_carrier_and_hour(ran: Ran) -> None:
    assert sum(ran.delays["flights"].to_pylist()) == FLIGHTS
    assert sum(ran.delays["cancelled"].to_pylist()) == NEVER_LEFT
    expected = """
        SELECT carrier, date_trunc('hour', departed) AS window_start, count(*) AS flights,
            count(*) FILTER (dep_delay IS NULL) AS cancelled, sum(dep_delay)::BIGINT AS delay,
            round(avg(dep_delay), 6) AS mean_delay
        FROM flights GROUP BY ALL
    """
    found = "SELECT carrier, window_start, flights, cancelled, delay, round(mean_delay, 6) FROM delays"
    ran.check(found, expected)


def test_departures_of_an_aircraft_between_breaks(ran: Ran) -> None:
    figures = [(row["legs"], row["sessions"]) for row in ran.rotations.to_pylist()]
    assert sum(legs * sessions for legs, sessions in figures) == FLIGHTS - NEVER_LEFT
    expected = """
        WITH breaks AS (
            SELECT tailnum, departed, distance, coalesce(
                departed - lag(departed) OVER (PARTITION BY tailnum ORDER BY departed) > INTERVAL 6 HOURS, true
            ) AS fresh
            FROM flights WHERE dep_delay IS NOT NULL AND tailnum IS NOT NULL
        ), numbered AS (
            SELECT *, sum(fresh::INT) OVER (PARTITION BY tailnum ORDER BY departed) AS number FROM breaks
        ), sessions AS (
            SELECT count(*) AS legs, sum(distance) AS miles FROM numbered GROUP BY tailnum, number
        )
        SELECT legs, count(*), sum(miles)::BIGINT FROM sessions GROUP BY legs
    """
    ran.check("SELECT legs, sessions, miles FROM rotations", expected)


def test_delays_by_the_last_weather_report(ran: Ran) -> None:
    assert sum(ran.weather["flights"].to_pylist()) == FLIGHTS - NEVER_LEFT
    expected = """
        WITH reports AS (SELECT * FROM weather WHERE wind_speed < 200), joined AS (
            SELECT dep_delay, departed - reports.time_hour <= INTERVAL 3 HOURS AS fresh,
                CASE WHEN fresh THEN wind_speed END AS wind, CASE WHEN fresh THEN visib END AS visib
            FROM (SELECT origin, departed, dep_delay FROM flights WHERE dep_delay IS NOT NULL) AS flown
            ASOF LEFT JOIN reports ON flown.origin = reports.origin AND flown.departed >= reports.time_hour
        )
        SELECT
            CASE WHEN wind < 10 THEN 'below 10 mph' WHEN wind < 20 THEN '10 to 20 mph' WHEN wind >= 20
                THEN '20 mph and more' ELSE 'no report' END,
            CASE WHEN visib < 2 THEN 'below 2 miles' WHEN visib < 10 THEN '2 to 10 miles' WHEN visib >= 10
                THEN '10 miles and more' ELSE 'no report' END,
            count(*), sum(dep_delay)::BIGINT, round(avg(dep_delay), 6)
        FROM joined GROUP BY 1, 2
    """
    found = "SELECT wind, visibility, flights, delay, round(mean_delay, 6) FROM by_weather"
    ran.check(found, expected)


def test_it_prints_three_short_tables(
    ran: Ran, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = ran.module["main"]
    monkeypatch.setitem(main.__globals__, "answers", lambda: [ran.delays, ran.rotations, ran.weather])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 50 and max(map(len, lines)) < 100
    assert [line.split() for line in lines if "36.2" in line] == [
        ["20", "mph", "and", "more", "below", "2", "miles", "705", "36.2"]
    ]
