"""SQL over the tables of a checkpoint, by DuckDB, which reads Arrow where it lies; called by `commands.state`."""

from typing import Any

import pyarrow as pa

from penstock.engine.checkpoint.reader import Checkpoint
from penstock.model.errors import OptionError, UserError
from penstock.model.installation import extra_install_command


def run_query(checkpoint: Checkpoint, sql: str, *, internal: bool = False) -> pa.Table:
    """Return the result of a query whose tables are ``operator.table``; it can reach nothing but these.

    Raises:
        OptionError: the query cannot be run; the message has the reason and the tables there are.
        UserError: DuckDB is not installed.
        CheckpointError: a file was deleted meanwhile, or cannot be read.
    """
    try:
        import duckdb
    except ImportError as error:
        raise UserError(
            f"penstock state query needs DuckDB: {extra_install_command('sql')}. penstock state show does without it."
        ) from error
    settings: dict[str, str | bool | int | float | list[str]] = {
        "enable_external_access": False,
        "python_enable_replacements": False,
    }
    with duckdb.connect(":memory:", config=settings) as connection:
        names = _register(connection, checkpoint, sql, internal)
        connection.execute("SET lock_configuration = true")
        try:
            kinds = [statement.type for statement in connection.extract_statements(sql)]
            if kinds != [duckdb.StatementType.SELECT]:
                raise OptionError("one query can be run: begin with SELECT, FROM or WITH.")
            result: pa.Table = connection.sql(sql).to_arrow_table()
            return result
        except duckdb.Error as error:
            hint = f"The tables are {', '.join(names)}." if names else f"The operators are {_operators(checkpoint)}."
            raise OptionError(f"{str(error).strip()}\n{hint}") from None


def _register(connection: Any, checkpoint: Checkpoint, sql: str, internal: bool) -> list[str]:
    """Make the tables known of those operators that the query names, and return all their names."""
    names: list[str] = []
    text = sql.lower()
    for operator in sorted(checkpoint.manifest.parallelism):
        schema = _quoted(operator)
        if operator.lower() not in text and schema.lower() not in text:
            continue
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        for table, rows in checkpoint.tables_of(operator, internal=internal).items():
            name = f"{schema}.{_quoted(table)}"
            view = f"rows_{len(names)}"
            connection.register(view, rows)
            connection.execute(f"CREATE VIEW {name} AS FROM {view}")
            names.append(name)
    return names


def _operators(checkpoint: Checkpoint) -> str:
    return ", ".join(map(_quoted, sorted(checkpoint.manifest.parallelism)))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
