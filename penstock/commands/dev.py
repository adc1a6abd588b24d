"""``penstock dev``: what a pipeline needs beside it, on this machine. Heavy imports stand inside the commands."""

import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.commands.arguments import optional
from penstock.commands.exit_codes import Debug, errors_as_exit_codes
from penstock.commands.group import command_group

if TYPE_CHECKING:
    from penstock.dev.kafka_broker import LocalBroker
    from penstock.dev.topics import TopicRequest

app = command_group(help="Run what a pipeline needs beside it, on this machine.")


@app.callback()
def dev() -> None:
    """Run what a pipeline needs beside it, on this machine."""


@app.command()
def kafka(
    context: typer.Context,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, metavar="PORT", help="Where it listens, on 127.0.0.1; 0: any free port.")
    ] = 9092,
    directory: Annotated[
        Path | None, optional("DIR", "Keep topics here; without it they go when it stops.", "--dir", file_okay=False)
    ] = None,
    topic: Annotated[list[str] | None, optional("TOPIC:PARTITIONS", "Create this topic. May come again.")] = None,
    debug: Debug = False,
) -> None:
    """Run an Apache Kafka broker on this machine, until Ctrl-C. It needs what the extra broker brings.

    It prints its bootstrap address when it is ready. The first start fetches Kafka (45 MB) from Maven Central. It
    listens on 127.0.0.1 only, and asks nobody who they are: it is for development, not for production.
    """
    with errors_as_exit_codes(debug or context.obj):
        from penstock.dev.kafka_broker import BrokerError, LocalBroker
        from penstock.dev.topics import parse_topics

        topics = parse_topics(topic or ())
        with _directory(directory) as folder:
            broker = LocalBroker(folder, port, tell=lambda line: typer.secho(line, err=True))
            if _run_until_stopped(broker, topics):
                raise BrokerError(f"the broker ended by itself: {broker.complaint()}")


class _Stopped(BaseException):
    """A signal asked for the end."""


def _run_until_stopped(broker: "LocalBroker", topics: "Sequence[TopicRequest]") -> bool:
    """Run a broker with some topics until a signal says to stop; return whether it ended before that."""
    from penstock.dev.kafka_broker import KAFKA_VERSION
    from penstock.dev.topics import make_topics

    def stop(number: int, frame: FrameType | None) -> None:
        for other in before:
            signal.signal(other, signal.SIG_IGN)
        raise _Stopped

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number in before:
            signal.signal(number, stop)
        broker.start()
        if topics:
            make_topics(broker.bootstrap, topics, lambda line: typer.secho(line, err=True))
        java = broker.java.major if broker.java is not None else "?"
        typer.echo(broker.bootstrap)
        typer.secho(f"Apache Kafka {KAFKA_VERSION} on Java {java}, data in {broker.data}; Ctrl-C stops it", err=True)
        broker.wait()
    except _Stopped:
        broker.stop()
        return False
    except BaseException:
        broker.stop()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return True


@contextmanager
def _directory(chosen: Path | None) -> Iterator[Path]:
    if chosen is not None:
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="penstock-kafka-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
