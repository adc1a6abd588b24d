"""Examines a Kafka cluster for ``penstock doctor --kafka``: one line a broker, a topic and what may be done with it.

The ``check_...`` functions judge what they are handed; `examine_kafka` asks the cluster, and changes nothing.
"""

from collections.abc import Iterable

from penstock.doctor.environment import FAIL, OK, WARN, Check
from penstock.engine.connectors.kafka.admin import ClusterView, TopicView, look
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.errors import OptionError


def examine_kafka(
    bootstrap: str, topics: Iterable[str], settings: Iterable[str] = (), patience_s: float = 10.0
) -> list[Check]:
    """Ask a cluster whether it answers, and for each topic whether it is there and may be read and written.

    ``settings`` are librdkafka's, as ``KEY=VALUE``; secrets by reference.

    Raises:
        UserError: a setting is wrong, or a secret is not where it should be.
    """
    view = look(client_settings(bootstrap, settings), topics, patience_s)
    return [check_cluster(bootstrap, view), *map(check_topic, view.topics)]


def check_cluster(address: str, view: ClusterView) -> Check:
    """Judge whether a cluster answers."""
    if view.problem:
        return Check("Kafka", FAIL, f"{address} does not answer: {view.problem}", _advice(view.problem))
    if not view.brokers:
        return Check("Kafka", FAIL, f"{address} answers, but no broker serves topics", "wait until it has started")
    number = "1 broker" if len(view.brokers) == 1 else f"{len(view.brokers)} brokers"
    return Check("Kafka", OK, f"{number}: {', '.join(view.brokers)}")


def check_topic(view: TopicView) -> Check:
    """Judge whether a topic is there, and what the rights of this user are good for."""
    name = f"topic {view.name}"
    if view.problem == "missing":
        return Check(name, FAIL, "does not exist, or may not be seen", "create it, or have DESCRIBE on it allowed")
    if view.problem == "denied":
        return Check(name, FAIL, "may not be seen", "have READ (a source) or WRITE (a sink) on it allowed")
    if view.problem:
        return Check(name, FAIL, view.problem, "see the log of the broker")
    partitions = "1 partition" if view.partitions == 1 else f"{view.partitions} partitions"
    if view.allowed is None:
        return Check(name, WARN, f"{partitions}; the cluster does not say what is allowed", "try it with a pipeline")
    lacking = [right for right in ("READ", "WRITE") if right not in view.allowed]
    if len(lacking) == 2:
        return Check(name, FAIL, f"{partitions}, no READ, no WRITE", "have READ (a source) or WRITE (a sink) allowed")
    if lacking:
        use = "source" if lacking == ["READ"] else "sink"
        return Check(name, WARN, f"{partitions}, no {lacking[0]}", f"a {use} needs {lacking[0]} on it")
    return Check(name, OK, f"{partitions}, may be read and written")


def client_settings(bootstrap: str, settings: Iterable[str] | None) -> KafkaSettings:
    """Return the settings of a client of a cluster that writes no log; further ones are given as ``KEY=VALUE``.

    Raises:
        OptionError: one is something else.
    """
    return KafkaSettings({"log_level": 0, "bootstrap.servers": bootstrap, **dict(map(parse_setting, settings or ()))})


def parse_setting(text: str) -> tuple[str, str]:
    """Read ``KEY=VALUE``.

    Raises:
        OptionError: it is something else.
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise OptionError(f"a Kafka setting is KEY=VALUE, such as security.protocol=SSL, not {text!r}.")
    return key, value


def _advice(problem: str) -> str:
    text = problem.lower()
    if "resolve" in text:
        return "check the host's name"
    if "ssl" in text or "certificate" in text:
        return "check that the port speaks TLS, and who signed its certificate"
    if "sasl" in text or "authentication" in text:
        return "check user, password and mechanism"
    if "refused" in text:
        return "start the broker (penstock dev kafka), or correct host and port"
    return "check host, port and firewall; a port that wants TLS or a login is silent to those without"
