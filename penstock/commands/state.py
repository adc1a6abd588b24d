"""``penstock state``: what is in a checkpoint, also of a job that runs. Heavy imports stand inside the commands."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.commands.arguments import Limit, optional
from penstock.commands.exit_codes import Debug, Json, errors_as_exit_codes
from penstock.commands.group import command_group

app = command_group(help="Look into a checkpoint or a savepoint: what operators hold, where sources are.")

Where = Annotated[
    str,
    typer.Argument(
        metavar="CHECKPOINT",
        help="A job's checkpoint directory (the newest), DIR@EPOCH, or DIR#SAVEPOINT; path or URL.",
    ),
]
Internal = Annotated[bool, typer.Option("--internal", help="Show columns of the store too; their names begin with $.")]
ArrowFile = Annotated[Path | None, optional("FILE", "Write all rows as an Arrow file.", "--arrow", dir_okay=False)]
ParquetFile = Annotated[Path | None, optional("FILE", "Write all rows as a Parquet file.", "--parquet", dir_okay=False)]


@app.command()
def ls(context: typer.Context, where: Where, as_json: Json = False, debug: Debug = False) -> None:
    """List operators with their tables, notes, positions and receipts."""
    with errors_as_exit_codes(debug or context.obj, as_json):
        import time

        from penstock.commands.state_view import print_listing
        from penstock.engine.checkpoint.reader import read_checkpoint

        print_listing(read_checkpoint(where), round(time.time() * 1e6), as_json=as_json)


@app.command()
def show(
    context: typer.Context,
    where: Where,
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="The operator's name.")],
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="One of its tables; all by default.", show_default=False)
    ] = None,
    limit: Limit = 20,
    internal: Internal = False,
    arrow: ArrowFile = None,
    parquet: ParquetFile = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the rows that an operator holds."""
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.state_view import chosen_tables, print_rows, write_rows
        from penstock.engine.checkpoint.reader import read_checkpoint

        tables = chosen_tables(read_checkpoint(where), operator, table, internal=internal)
        if write_rows(tables, arrow, parquet):
            return
        for name, rows in tables.items():
            print_rows(rows, limit, title=f"{operator}.{name}", as_json=as_json)


@app.command()
def query(
    context: typer.Context,
    where: Where,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A query; tables are operator.table, in double quotes.")],
    limit: Limit = 20,
    internal: Internal = False,
    arrow: ArrowFile = None,
    parquet: ParquetFile = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Ask SQL of what operators hold. Needs DuckDB, which the extra sql brings."""
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.state_sql import run_query
        from penstock.commands.state_view import print_rows, write_rows
        from penstock.engine.checkpoint.reader import read_checkpoint

        result = run_query(read_checkpoint(where), sql, internal=internal)
        if not write_rows({"result": result}, arrow, parquet):
            print_rows(result, limit, as_json=as_json)
