"""``penstock archive``: keeps a Kafka topic as Parquet, so that a replay outlives its retention."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from penstock.model.errors import PenstockError
from penstock.replay.asked import add_spark_options, spark_settings


def command(argv: Sequence[str]) -> int:
    """Run the command and return its exit code: 0 ok, 1 it failed, 2 usage."""
    arguments = _parser().parse_args(argv)
    try:
        done = _archive(arguments)
    except PenstockError as error:
        if arguments.debug:
            raise
        if arguments.json:
            print(json.dumps({"status": "failed", "error": str(error), "type": type(error).__name__}))
        print(f"penstock archive: {error}", file=sys.stderr)
        return 1
    for item in done:
        if arguments.json:
            print(json.dumps({"status": "ok", **item}))
        else:
            print(_sentence(item))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="penstock archive",
        description="Archive what Kafka topics have got since the last run, as Parquet files by partition.",
    )
    parser.add_argument("topics", metavar="TOPIC", nargs="+", help="a topic to archive")
    parser.add_argument("--kafka", metavar="HOST:PORT", required=True, help="the cluster")
    parser.add_argument("--out", metavar="DIR", required=True, help="where the archives are: a path or URL")
    parser.add_argument(
        "--setting",
        metavar="KEY=VALUE",
        dest="settings",
        action="append",
        default=[],
        help="a setting of librdkafka; secrets as env:NAME or file:PATH; may come again",
    )
    add_spark_options(parser)
    parser.add_argument(
        "--accept-gap",
        action="store_true",
        help="go on behind messages that retention took away before they were archived",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON line a topic")
    parser.add_argument("--debug", action="store_true", help="show full tracebacks")
    return parser


def _archive(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    from penstock.doctor.kafka import parse_setting
    from penstock.engine.connectors.kafka.settings import KafkaSettings
    from penstock.replay.session import spark_session

    given = dict(map(parse_setting, arguments.settings))
    settings = KafkaSettings({"log_level": 0, "bootstrap.servers": arguments.kafka, **given})
    done = []
    with spark_session(arguments.master, settings=spark_settings(arguments)) as session:
        from penstock.replay.archive import archive_topic

        for topic in arguments.topics:
            archived = archive_topic(session, settings, topic, arguments.out, accept_gap=arguments.accept_gap)
            done.append(asdict(archived))
    return done


def _sentence(done: dict[str, Any]) -> str:
    topic, where = done["topic"], done["where"]
    if not done["ranges"]:
        return f"{topic}: nothing new; {where} has all that is committed"
    parts = ", ".join(f"{item['partition']}: {item['start']} up to {item['stop']}" for item in done["ranges"])
    gap = f"; GAP: {len(done['gaps'])} ranges are lost" if done["gaps"] else ""
    return f"{topic}: {done['rows']:,} messages to {where} (offsets by partition {parts}){gap}"
