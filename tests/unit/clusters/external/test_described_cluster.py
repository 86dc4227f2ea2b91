"""Clusters that files describe: what they say, what they leave open, and what is no such file."""

import json
import re
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from highwater.cli.app import app
from highwater.clusters.external.described_cluster import DEFAULTS, read_files
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.cluster_facts import (
    POSITIONS_RETENTION,
    UNCLEAN,
    VERIFICATION,
    ClusterFacts,
    ReleaseRange,
)

PROPERTIES = """
process.roles=broker,controller
node.id=7
controller.quorum.voters=7@a:9093,8@b:9093,9@c:9093
broker.rack=east
offsets.topic.replication.factor=1
min.insync.replicas=2
"""
STRIMZI = """
kind: KafkaNodePool
metadata: {name: controllers}
spec: {replicas: 3, roles: [controller]}
--- # the brokers
kind: KafkaNodePool
metadata: {name: brokers}
spec: {replicas: 5, roles: [broker]}
---
kind: Kafka
metadata: {name: east}
spec:
  kafka:
    version: 3.9.2
    config:
      default.replication.factor: 3
      min.insync.replicas: 2
      transaction.state.log.min.isr: 1
---
kind: KafkaTopic
metadata: {name: orders}
spec: {partitions: 12, replicas: 3, config: {min.insync.replicas: 1}}
---
kind: KafkaTopic
metadata: {name: other}
spec: {topicName: Other.Topic}
---
kind: Secret
metadata: {name: keys}
"""
COMPOSE = """
services:
  broker:
    image: confluentinc/cp-kafka:7.6.1
    environment:
      KAFKA_BROKER_ID: 1
      KAFKA_ZOOKEEPER_CONNECT: zookeeper:2181
      KAFKA_UNCLEAN_LEADER_ELECTION_ENABLE: true
      KAFKA_MIN_INSYNC_REPLICAS: ${MIN}
      KAFKA_DEFAULT_REPLICATION_FACTOR: ${REPLICAS:-2}
  second:
    image: confluentinc/cp-kafka:7.6.1
    environment: [KAFKA_BROKER_ID=2, KAFKA_ZOOKEEPER_CONNECT=zookeeper:2181, PATH=/bin]
  zookeeper:
    image: confluentinc/cp-zookeeper:7.6.1
    environment: {ZOOKEEPER_CLIENT_PORT: 2181}
"""

DOCS: Final = Path(__file__).parents[4] / "docs"


def read(path: Path, name: str, text: str) -> ClusterFacts:
    (path / name).write_text(text, encoding="utf-8")
    return read_files([path / name])


def settings(facts: ClusterFacts, topic: str) -> dict[str, str]:
    topics = {each.name: each for each in (*facts.topics, *facts.own_topics)}
    return dict(topics[topic].settings or {})


def test_a_brokers_properties(tmp_path: Path) -> None:
    facts = read(tmp_path, "server.properties", PROPERTIES)
    assert (facts.coordination, facts.controllers, facts.features) == ("kraft", 3, None)
    [broker] = facts.brokers
    assert (broker.id, broker.rack, broker.release) == (7, "east", None)
    [topic] = facts.topics
    assert (topic.name, topic.replicas, topic.partitions) == (DEFAULTS, 1, 1)
    assert settings(facts, DEFAULTS)["min.insync.replicas"] == "2"
    assert settings(facts, DEFAULTS)["unclean.leader.election.enable"] == "false"
    replicas = {topic.name: topic.replicas for topic in facts.own_topics}
    assert replicas["__consumer_offsets"] == 1
    assert replicas["__transaction_state"] == 3
    assert "__remote_log_metadata" not in replicas
    assert facts.defaults["default.replication.factor"] == "1"
    assert "min.insync.replicas" not in facts.defaults


@pytest.mark.parametrize(
    ("lines", "retention_ms", "limit_ms"),
    [
        ("", "604800000", None),
        ("log.retention.hours=1", "3600000", None),
        ("log.retention.hours=1\nlog.retention.minutes=2", "120000", None),
        ("log.retention.hours=-1", "-1", None),
        ("log.retention.hours=1\nlog.retention.ms=5", "5", None),
        ("log.message.timestamp.before.max.ms=7", "604800000", "7"),
    ],
)
def test_how_long_brokers_keep_records(
    tmp_path: Path, lines: str, retention_ms: str, limit_ms: str | None
) -> None:
    facts = read(tmp_path, "server.properties", f"{PROPERTIES}{lines}\n")
    in_force = settings(facts, DEFAULTS)
    assert in_force["retention.ms"] == retention_ms
    assert in_force.get("message.timestamp.before.max.ms") == limit_ms
    assert in_force["message.timestamp.type"] == "CreateTime"
    assert in_force["cleanup.policy"] == "delete"


def test_resources_of_strimzi(tmp_path: Path) -> None:
    facts = read(tmp_path, "kafka.yaml", STRIMZI)
    assert (facts.coordination, facts.controllers, len(facts.brokers)) == ("kraft", 3, 5)
    assert {str(broker.release) for broker in facts.brokers} == {"3.9.2"}
    assert facts.brokers[0].settings == {
        VERIFICATION: "true",
        POSITIONS_RETENTION: "10080",
    }
    assert {(topic.name, topic.partitions, topic.replicas) for topic in facts.topics} == {
        ("orders", 12, 3),
        ("Other.Topic", 1, 3),
    }
    assert settings(facts, "orders")["min.insync.replicas"] == "1"
    assert settings(facts, "Other.Topic")["min.insync.replicas"] == "2"
    assert settings(facts, "__transaction_state")["min.insync.replicas"] == "1"
    assert settings(facts, "__consumer_offsets")["min.insync.replicas"] == "2"
    assert "__share_group_state" not in {topic.name for topic in facts.own_topics}
    assert facts.unseen == ("kafka.yaml: Secret keys is not supported",)


def test_what_strimzi_says_of_features_and_racks(tmp_path: Path) -> None:
    of = "{version: 4.4.0, metadataVersion: 4.4-IV1, rack: {topologyKey: zone}, replicas: 3}"
    text = f"kind: Kafka\nmetadata: {{name: east}}\nspec: {{kafka: {of}}}\n"
    facts = read(tmp_path, "kafka.yaml", text)
    assert facts.features == {"metadata.version": 32}
    assert facts.unseen == ("east: racks come from node zone",)
    assert facts.level("metadata.version") == 32
    assert facts.level("transaction.version") is None
    shown = CliRunner().invoke(app, ["advise", str(tmp_path / "kafka.yaml"), "--all"]).stdout
    assert "no racks" not in shown
    assert "KAFKA-14139" in shown.partition("NOT AFFECTED")[2]
    java = [str(tmp_path / "kafka.yaml"), "--transactions", "java"]
    lines = CliRunner().invoke(app, ["advise", *java]).stdout.splitlines()
    [unknown] = [line for line in lines if "KAFKA-17754" in line]
    assert unknown.startswith("CANNOT TELL ")
    assert unknown.endswith(": needs the cluster's features")


def test_a_compose_file(tmp_path: Path) -> None:
    facts = read(tmp_path, "compose.yml", COMPOSE)
    assert (facts.coordination, facts.controllers) == ("zookeeper", None)
    assert [broker.id for broker in facts.brokers] == [1, 2]
    assert {str(broker.release) for broker in facts.brokers} == {"3.6.x"}
    [topic] = facts.topics
    assert topic.replicas == 1  # of the second broker
    assert "min.insync.replicas" not in settings(facts, DEFAULTS)  # only the environment knows it
    assert settings(facts, DEFAULTS)["unclean.leader.election.enable"] == "true"
    assert settings(facts, DEFAULTS)["message.format.version"] == "3.6"
    assert facts.unseen == ("broker in compose.yml: min.insync.replicas is ${MIN}",)


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("apache/kafka:4.0.0", "4.0.0"),
        ("bitnami/kafka:3.9", "3.9.x"),
        ("quay.io/strimzi/kafka:0.45.0-kafka-3.9.1", "3.9.1"),
        ("confluentinc/cp-kafka:6.2.0", "2.8.x"),
        ("confluentinc/cp-server:8.1.0", "4.1.x"),
        ("apache/kafka:latest", "None"),
    ],
)
def test_the_release_of_an_image(tmp_path: Path, image: str, release: str) -> None:
    text = f"services:\n  b:\n    image: {image}\n    environment: [KAFKA_NODE_ID=1]\n"
    [broker] = read(tmp_path, "compose.yml", text).brokers
    assert str(broker.release) == release


def test_a_release_that_the_user_names_is_that_of_all(tmp_path: Path) -> None:
    (tmp_path / "compose.yml").write_text(COMPOSE, encoding="utf-8")
    named = ReleaseRange(first=(3, 6, 2), below=None, exact=True)
    facts = read_files([tmp_path / "compose.yml"], named)
    assert {broker.release for broker in facts.brokers} == {named}


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("a.yaml", "services: [", "cannot be read"),
        ("a.yaml", "services: {web: {image: nginx}}", "no file has settings"),
        ("a.yaml", "- 1", "no file has settings"),
        ("a.properties", "x=\\u12", "cannot be read"),
        ("a.properties", "default.replication.factor=three", "'three', which is not a number"),
        ("a.properties", "node.id=one", "not a number"),
        ("nothing.yaml", None, "cannot be read"),
    ],
)
def test_a_file_that_describes_no_cluster_is_an_error_that_says_so(
    tmp_path: Path, name: str, text: str | None, error: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=error):
        read_files([tmp_path / name])


RUN = CliRunner()


def test_only_what_is_new_since_the_baseline_counts(tmp_path: Path) -> None:
    file, baseline = tmp_path / "server.properties", tmp_path / "before.json"
    words = ["advise", str(file), "--kafka", "4.4.0", "--acks", "all"]
    words += ["--transactions", "none", "--client", "librdkafka", "--power", "safe"]
    words += ["--offset-reset", "earliest"]
    first = f"{PROPERTIES}default.replication.factor=3\n"
    file.write_text(first, encoding="utf-8")
    before = RUN.invoke(app, [*words, "--json"])
    assert before.exit_code == 1
    baseline.write_text(before.stdout, encoding="utf-8")
    same = RUN.invoke(app, [*words, "--baseline", str(baseline)])
    assert same.exit_code == 0
    assert "nothing." in same.stdout
    worse = first.replace(",8@b:9093,9@c:9093", "")
    file.write_text(worse, encoding="utf-8")
    new = RUN.invoke(app, [*words, "--baseline", str(baseline)])
    assert new.exit_code == 1
    assert new.stdout.rstrip().endswith(": one-controller.")
    assert "on it:" not in new.stdout  # no cluster runs


def test_the_question_that_settles_most_is_named(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text(PROPERTIES, encoding="utf-8")
    text = RUN.invoke(app, ["advise", str(tmp_path / "server.properties")]).stdout
    assert "--kafka RELEASE would decide most of these hazards." in text
    assert ": --all shows the reasons" in text


@pytest.mark.parametrize(
    "words",
    [[], ["x.properties", "--bootstrap", "a:1"], ["--baseline", "none", "--bootstrap", "a:1"]],
)
def test_wrong_words_are_an_error(words: list[str]) -> None:
    done = RUN.invoke(app, ["advise", *words])
    assert isinstance(done.exception, UsageError)


def test_options_of_topics_are_for_files_too_and_those_of_connections_are_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "kafka.yaml"
    path.write_text(STRIMZI)
    names = [topic.name for topic in read_files([path], pattern="ord*").topics]
    assert names == ["orders"]
    every = [topic.name for topic in read_files([path], internal=True).topics]
    assert every[:2] == ["orders", "Other.Topic"]
    assert "__consumer_offsets" in every
    with pytest.raises(UsageError, match="no topic matches 'x'"):
        read_files([path], pattern="x")
    run = CliRunner()
    advised = run.invoke(app, ["advise", str(path), "--topic", "Other.*", "--acks", "1"])
    assert "orders" not in advised.stdout
    assert "Other.Topic can lose records by " in advised.stdout
    refused = run.invoke(app, ["advise", str(path), "--command-config", str(path)])
    assert isinstance(refused.exception, UsageError)
    assert "--command-config is only for a running cluster" in refused.exception.message


def test_six_clusters_can_lose_by_what_the_page_says() -> None:
    page = (DOCS / "advise.md").read_text("utf-8")
    rows = re.findall(r"\| \[[^]]+\]\((examples/clusters/[^)]+)\) \| ([^|]+) \|", page)
    assert {Path(name) for name, _ in rows} == {
        path.relative_to(DOCS) for path in (DOCS / "examples" / "clusters").iterdir()
    }
    for name, ids in rows:
        release = ["--kafka", "2.8.2"] if name.endswith("properties") else []
        done = CliRunner().invoke(app, ["advise", str(DOCS / name), *release, "--json"])
        hazards = json.loads(done.stdout)["hazards"]
        losing = [row["id"] for row in hazards if row["status"] == "can lose"]
        assert sorted(losing) == sorted(ids.split(", ")), name


@pytest.mark.parametrize(
    ("text", "unclean"),
    [
        (PROPERTIES, False),
        (f"{PROPERTIES}{UNCLEAN}=true\n", True),
        ("process.roles=broker\ncontroller.quorum.voters=7@a:9093\n", None),
    ],
)
def test_files_of_controllers_say_whether_elections_are_clean(
    tmp_path: Path, text: str, *, unclean: bool | None
) -> None:
    facts = read(tmp_path, "server.properties", text)
    assert facts.unclean_controllers is unclean
    assert facts.topics[0].inherits == {UNCLEAN}


def test_strimzis_brokers_and_controllers_have_one_configuration(tmp_path: Path) -> None:
    facts = read(tmp_path, "kafka.yaml", STRIMZI)
    assert facts.unclean_controllers is False
