"""Advice for real clusters: what is read of them, in which requests, and by whom."""

import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, ShareConsumer
from confluent_kafka import admin as kafka_admin

from highwater.clusters.core.interfaces import NodeOptions
from highwater.clusters.drivers import open_cluster
from highwater.clusters.external.client_properties import read_properties
from highwater.clusters.external.cluster_survey import ClusterSurvey
from highwater.clusters.external.security import dialer
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.cluster_facts import UNCLEAN
from highwater.harness.runs.plan import Plan
from highwater.nemesis.faults.upgrades import climb_all
from highwater.nemesis.schedules.upgrade_path import levels
from highwater.runtime.runner import boot
from tests.kafka.test_external_access import certificate

pytestmark = pytest.mark.kafka
READING = {"ApiVersionsRequest", "MetadataRequest", "DescribeConfigsRequest"}


def advise(bootstrap: str, *options: str) -> tuple[int, dict[str, Any], str]:
    """Return the exit code, the document, and what was written to standard error."""
    command = [sys.executable, "-m", "highwater", "advise", "--bootstrap", bootstrap, "--json"]
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def statuses(document: dict[str, Any]) -> dict[str, str]:
    return {hazard["id"]: hazard["status"] for hazard in document["hazards"]}


def losing(document: dict[str, Any]) -> set[str]:
    return {hazard for hazard, status in statuses(document).items() if status == "can lose"}


def hazard_topics(document: dict[str, Any], hazard: str) -> list[str]:
    return next(each["topics"] for each in document["hazards"] if each["id"] == hazard)


KAFKA: Any = kafka_admin
SET: Any = KAFKA.AlterConfigOpType.SET
MODULES = "org.apache.kafka.common.security"
LOGIN = {
    "PLAIN": f"{MODULES}.plain.PlainLoginModule required",
    "SCRAM-SHA-512": f"{MODULES}.scram.ScramLoginModule required",
}
KEYS = "PEM"


def properties(folder: Path, name: str, **settings: str) -> tuple[str, str]:
    """Write a client properties file, as Kafka's tools read it, and return the option."""
    path = folder / f"{name}.properties"
    lines = [f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
    path.write_text("\n".join(["# of a test", *lines, ""]))
    return "--command-config", str(path)


@contextlib.contextmanager
def secured(folder: Path, cert: Path, both: Path) -> Iterator[str]:
    """A broker on ZooKeeper that wants a certificate and a password, and knows rights."""
    users = 'user_a="b" user_reader="r" user_lister="l" user_nobody="n"'
    plain = f'{LOGIN["PLAIN"]} username="a" password="b" {users};'
    settings = {
        "zookeeper.session.timeout.ms": "15000",
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": KEYS,
        "ssl.keystore.location": str(both),
        "ssl.truststore.type": KEYS,
        "ssl.truststore.location": str(cert),
        "listener.name.plaintext.ssl.client.auth": "required",
        "ssl.endpoint.identification.algorithm": "",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": plain,
        "listener.name.plaintext.scram-sha-512.sasl.jaas.config": f"{LOGIN['SCRAM-SHA-512']};",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:a",
    }
    cluster = open_cluster(release("3.9.2-zk"), folder / "run", brokers=1, broker_config=settings)
    with contextlib.closing(cluster):
        yield cluster.bootstrap


def prepare(bootstrap: str, cert: Path, both: Path) -> None:
    """Create a topic, a password for SCRAM, and the right to describe, as the super user."""
    admin = KAFKA.AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "a",
            "sasl.password": "b",
            "ssl.ca.location": str(cert),
            "ssl.certificate.location": str(cert),
            "ssl.key.location": str(both),
            "ssl.endpoint.identification.algorithm": "none",
        }
    )
    scram = KAFKA.ScramCredentialInfo(KAFKA.ScramMechanism.SCRAM_SHA_512, 4096)
    resources = (
        (KAFKA.ResourceType.TOPIC, "*"),
        (KAFKA.ResourceType.BROKER, "kafka-cluster"),
    )
    wanted: list[Any] = [
        *admin.create_topics([KAFKA.NewTopic("orders", 1, 1)]).values(),
        *admin.create_acls(
            [
                KAFKA.AclBinding(
                    kind,
                    name,
                    KAFKA.ResourcePatternType.LITERAL,
                    f"User:{user}",
                    "*",
                    operation,
                    KAFKA.AclPermissionType.ALLOW,
                )
                for kind, name in resources
                for user, operations in (
                    ("reader", (KAFKA.AclOperation.DESCRIBE, KAFKA.AclOperation.DESCRIBE_CONFIGS)),
                    ("lister", (KAFKA.AclOperation.DESCRIBE,)),
                )
                for operation in operations
            ]
        ).values(),
        *admin.alter_user_scram_credentials(
            [KAFKA.UserScramCredentialUpsertion("reader", scram, b"scram")]
        ).values(),
    ]
    for future in wanted:
        future.result(timeout=30)


KNOWN = ("--acks", "all", "--power", "separate", "--client", "librdkafka")
Topics = Mapping[str, tuple[int, Mapping[str, str]]]
"""Of each topic its replicas and its settings."""


@contextlib.contextmanager
def opened(
    kafka: str,
    folder: Path,
    topics: Topics,
    *,
    brokers: int = 3,
    config: Mapping[str, str] = {},
    **more: Any,  # noqa: ANN401 - of open_cluster
) -> Iterator[tuple[str, Any]]:
    """A cluster with topics of one partition: its address, and an admin client."""
    cluster = open_cluster(
        release(kafka), folder / "run", brokers=brokers, broker_config=config, **more
    )
    with contextlib.closing(cluster):
        admin = KAFKA.AdminClient({"bootstrap.servers": cluster.bootstrap})
        create(admin, topics)
        yield cluster.bootstrap, admin


def create(admin: Any, topics: Topics) -> None:  # noqa: ANN401 - of confluent-kafka
    wanted = [
        KAFKA.NewTopic(name, 1, replicas, config=dict(settings))
        for name, (replicas, settings) in topics.items()
    ]
    for created in admin.create_topics(wanted).values() if wanted else ():
        created.result(timeout=60)


@pytest.mark.nightly
@pytest.mark.parametrize("kafka", ["3.9.2", "4.4.0"])
def test_controllers_that_allow_unclean_elections_are_found(tmp_path: Path, kafka: str) -> None:
    cluster = open_cluster(release(kafka), tmp_path / "run", brokers=3, broker_config={})
    with contextlib.closing(cluster):
        admin = KAFKA.AdminClient({"bootstrap.servers": cluster.bootstrap})
        create(admin, {"own": (3, {UNCLEAN: "false"}), "without": (3, {})})
        _, document, errors = advise(cluster.bootstrap, *KNOWN)
        assert statuses(document)["controller-unclean"] == "guarded", errors
        cluster.configure_controllers({UNCLEAN: "true"})
        _, document, errors = advise(cluster.bootstrap, *KNOWN)
        assert "controller-unclean" in losing(document), errors
        assert statuses(document)["unclean-election"] == "guarded"
        assert hazard_topics(document, "controller-unclean") == ["without"]


@pytest.mark.nightly
def test_a_real_cluster_has_exactly_the_hazards_of_its_topics_and_clients(tmp_path: Path) -> None:
    topics = {
        "healthy": (3, {"min.insync.replicas": "2"}, {"elected-again", "empty-last-leader"}),
        "two": (2, {"min.insync.replicas": "1"}, {"last-replica"}),
        "alone": (1, {}, {"single-replica"}),
        "unclean": (
            3,
            {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"},
            {"elected-again", "unclean-election"},
        ),
    }
    of_clients = {"KAFKA-17754", "KAFKA-19446", "late-copy", "late-produce", "reused-sequence"}
    plain = {name: (replicas, config) for name, (replicas, config, _) in topics.items()}
    with opened("4.4.0", tmp_path, plain) as (bootstrap, _):
        for name, (_, _, expected) in topics.items():
            code, document, errors = advise(bootstrap, *KNOWN, "--topic", name)
            assert code == 1, errors
            assert losing(document) == {*expected, "one-controller"}
            # There is no transactional client, and so no topic of theirs.
            assert statuses(document)["reused-sequence"] == "not affected"
            assert statuses(document)["own-transactions"] == "not affected"

        producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": "a", "acks": "all"}
        )
        producer.init_transactions(60)
        for options, expected, status in (
            ((), set(), "cannot tell"),
            (("--transactions", "librdkafka"), of_clients, "can lose"),
            (("--transactions", "java"), set(), "guarded"),
        ):
            _, document, _ = advise(bootstrap, *KNOWN, "--topic", "healthy", *options)
            assert losing(document) == {
                *("elected-again", "empty-last-leader", "one-controller"),
                "own-transactions",  # with one replica
                *expected,
            }
            assert hazard_topics(document, "own-transactions") == ["__transaction_state"]
            assert {statuses(document)[hazard] for hazard in of_clients} == {status}


@pytest.mark.nightly
@pytest.mark.parametrize(("kafka", "share"), [("4.3.1", "can lose"), ("4.4.0", "not affected")])
def test_a_cluster_tells_if_groups_and_share_groups_have_been_there(
    kafka: str, share: str, tmp_path: Path
) -> None:
    known = ("--acks", "all", "--power", "separate", "--kafka", kafka)
    absent = "not affected"
    with opened(kafka, tmp_path, {"one": (1, {})}, brokers=1) as (bootstrap, _):

        def told(*options: str) -> tuple[str, str]:
            _, document, _ = advise(bootstrap, *known, *options)
            found = statuses(document)
            return found["KAFKA-20539"], found["KAFKA-20742"]

        def given(client: Consumer | ShareConsumer) -> list[object]:
            producer.produce("one", b"value")
            producer.flush(10)
            if isinstance(client, Consumer):
                return [each for each in (client.poll(0.5),) if each is not None]
            return [*client.poll(0.5)]

        assert told() == (absent, absent)
        producer = Producer({"bootstrap.servers": bootstrap})
        settings = {"bootstrap.servers": bootstrap, "group.id": "readers"}
        readers = (
            (Consumer(settings), "cannot tell", absent),
            (ShareConsumer({**settings, "group.id": "sharers"}), "cannot tell", share),
        )
        for client, *expected in readers:
            client.subscribe(["one"])
            await_condition(
                lambda client=client: given(client),  # type: ignore[misc]
                bool,
                what="the group to be given a record",
                limit_s=60,
            )
            client.close()
            assert told() == tuple(expected)
        assert told("--offset-reset", "latest") == ("can lose", share)
        assert told("--offset-reset", "earliest") == ("guarded", share)


@pytest.mark.nightly
def test_a_healthy_cluster_of_three_controllers_has_what_has_no_cure(tmp_path: Path) -> None:
    config = {"min.insync.replicas": "2"}
    topics: Topics = {"three": (3, config), "two": (2, config)}
    with opened("4.4.0", tmp_path, topics, options=NodeOptions(controllers=3)) as (bootstrap, _):
        code, document, errors = advise(bootstrap, *KNOWN)
        assert code == 1, errors
        assert losing(document) == {"elected-again", "empty-last-leader"}
        assert hazard_topics(document, "elected-again") == ["three"]
        assert hazard_topics(document, "empty-last-leader") == ["three", "two"]
        assert statuses(document)["one-controller"] == "guarded"
        code, document, errors = advise(bootstrap, *KNOWN, "--topic", "two")
        assert code == 1, (document, errors)
        assert losing(document) == {"empty-last-leader"}


OWN = {
    "__consumer_offsets": "own-positions",
    "__transaction_state": "own-transactions",
    "__share_group_state": "own-share-state",
    "__remote_log_metadata": "own-remote-tier",
}


def bring_own_topics(bootstrap: str, admin: Any) -> None:  # noqa: ANN401 - of confluent-kafka
    """Use groups, transactions, share groups and the tier, until Kafka has made its topics."""
    create(admin, {"tiered": (3, {"remote.storage.enable": "true"})})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "a"})
    producer.init_transactions(60)
    settings = {"bootstrap.servers": bootstrap, "group.id": "readers"}
    readers = (Consumer(settings), ShareConsumer({**settings, "group.id": "sharers"}))
    for reader in readers:
        reader.subscribe(["tiered"])

    def there() -> set[str]:
        for reader in readers:
            reader.poll(0.2)
        return {*admin.list_topics(timeout=10).topics}

    await_condition(there, OWN.keys().__le__, what="Kafka to make its own topics", limit_s=120)
    for reader in readers:
        reader.close()


@pytest.mark.nightly
def test_kafkas_own_topics_are_held_against_their_hazards(tmp_path: Path) -> None:
    replicated = dict.fromkeys(
        (
            "offsets.topic.replication.factor",
            "transaction.state.log.replication.factor",
            "share.coordinator.state.topic.replication.factor",
        ),
        "3",
    )
    tiered = NodeOptions(tiered=True)
    with opened("4.4.0", tmp_path, {}, config=replicated, options=tiered) as (bootstrap, admin):
        bring_own_topics(bootstrap, admin)

        def own_statuses() -> set[str]:
            _, document, _ = advise(bootstrap, "--acks", "all", "--power", "separate")
            for topic, hazard in OWN.items():
                assert hazard_topics(document, hazard) == [topic]
            return {statuses(document)[hazard] for hazard in OWN.values()}

        for min_isr, unclean, status in (
            ("2", "false", "guarded"),
            ("1", "false", "can lose"),
            ("2", "true", "can lose"),
        ):
            for topic in OWN:
                entries = [
                    KAFKA.ConfigEntry(name, value, incremental_operation=SET)
                    for name, value in (
                        ("min.insync.replicas", min_isr),
                        ("unclean.leader.election.enable", unclean),
                    )
                ]
                resource = KAFKA.ConfigResource("topic", topic, incremental_configs=entries)
                for altered in admin.incremental_alter_configs([resource]).values():
                    altered.result(timeout=30)
            await_condition(
                own_statuses,
                {status}.__eq__,
                what=f"the advice about Kafka's own topics to be {status}",
                limit_s=60,
            )


OF_2_8_2 = ("KAFKA-14139", "KAFKA-18991", "missed-decisions")


@pytest.mark.nightly
def test_a_tiered_topic_that_is_retained_by_its_size_is_at_risk_up_to_4_3(tmp_path: Path) -> None:
    tiered = {"remote.storage.enable": "true"}
    topics: Topics = {
        "by-size": (2, {**tiered, "retention.bytes": "5000000"}),
        "by-time": (2, tiered),
        "local": (2, {"retention.bytes": "5000000"}),
    }
    options = NodeOptions(tiered=True)
    with opened("4.3.1", tmp_path, topics, brokers=2, options=options) as (bootstrap, _):
        code, document, errors = advise(bootstrap, *KNOWN, "--topic", "[bl]*")
        assert code == 1, errors
        assert hazard_topics(document, "KAFKA-20732") == ["by-size"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("upgrade", "expected"),
    [
        (
            Plan(kafka="0.10.2.2", to=("2.8.2",), format="0.10.2"),
            {"old-format", "no-elr-before-4.0", *OF_2_8_2},
        ),
        (Plan(kafka="0.10.2.2", to=("2.8.2",)), {"no-elr-before-4.0", *OF_2_8_2}),
        (
            Plan(kafka="3.9.2", to=("4.4.0",), protocol="3.9", controllers=3),
            {"upgrade-without-elr", "elected-again"},
        ),
        (
            Plan(kafka="3.9.2", to=("4.4.0",), controllers=3),
            {"elected-again", "empty-last-leader"},
        ),
    ],
    ids=["old format", "new format", "old features", "new features"],
)
def test_an_upgraded_cluster_has_what_its_upgrade_left_behind(
    upgrade: Plan, expected: set[str], tmp_path: Path
) -> None:
    with contextlib.closing(boot(upgrade, tmp_path / "run")) as upgraded:
        climb_all(upgraded, levels(upgrade))
        admin = KAFKA.AdminClient({"bootstrap.servers": upgraded.bootstrap})
        await_condition(
            lambda: len(admin.list_topics(timeout=10).brokers),
            lambda brokers: brokers == len(upgraded.brokers),
            what="brokers to list each other",
            limit_s=60,
            passing=(KafkaException,),
        )
        create(admin, {"orders": (3, {"min.insync.replicas": "2"})})
        code, document, errors = advise(upgraded.bootstrap, *KNOWN, "--kafka", upgrade.to[-1])
        assert code == 1, errors
        assert losing(document) == expected


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made by openssl")
def test_a_user_who_may_only_describe_is_advised(tmp_path: Path) -> None:
    cert, both = certificate(tmp_path)
    access = {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_type": KEYS,
        "ssl_truststore_location": str(cert),
        "ssl_keystore_type": KEYS,
        "ssl_keystore_location": str(both),
        "ssl_endpoint_identification_algorithm": "",
    }

    def user(name: str, password: str, mechanism: str = "PLAIN", **changes: str) -> tuple[str, str]:
        login = f'{LOGIN[mechanism]} username="{name}" password="{password}";'
        settings = {**access, "sasl_mechanism": mechanism, "sasl_jaas_config": login, **changes}
        return properties(tmp_path, f"client-{len(list(tmp_path.iterdir()))}", **settings)

    with secured(tmp_path, cert, both) as bootstrap:
        dial = dialer(read_properties(Path(user("a", "b")[1])))
        await_condition(
            lambda: ClusterSurvey(bootstrap, dial).read(),
            lambda facts: bool(facts.brokers),
            what="the broker to know of itself",
            limit_s=60,
            passing=(HarnessError,),
        )
        prepare(bootstrap, cert, both)
        for reader in (user("reader", "r"), user("reader", "scram", "SCRAM-SHA-512")):
            code, document, errors = advise(bootstrap, *reader, "--acks", "all")
            assert code == 1, errors
            assert losing(document) == {"single-replica"}
            # Nobody has said whether all may lose their power at once.
            assert statuses(document)["power-of-all"] == "cannot tell"
            assert not document["not_seen"]
            assert document["cluster"]["topics"] == 1
            assert document["cluster"]["brokers"][0]["release"] == "3.9.x"
            assert set(document["requests"]) == READING

        code, document, _ = advise(bootstrap, *user("lister", "l"), "--acks", "all")
        assert code == 1
        assert losing(document) == {"single-replica"}  # metadata tells it
        assert document["not_seen"] == [
            "settings of topic orders: the user is not authorized to describe it",
            "settings of broker 1: the user is not authorized to describe the cluster",
        ]
        code, document, _ = advise(bootstrap, *user("nobody", "n"), "--acks", "all")
        assert code == 3
        assert document["cluster"]["topics"] == 0

        other = tmp_path / "other"
        other.mkdir()
        stranger = str(certificate(other)[0])
        for options, reason in (
            (user("reader", "wrong"), "authentication failed"),
            (user("reader", "r", ssl_truststore_location=stranger), "CERTIFICATE_VERIFY_FAILED"),
            (user("reader", "r", ssl_keystore_location=""), "CERTIFICATE_REQUIRED|certificate"),
            (properties(tmp_path, "plain"), "closed the connection|does not respond"),
        ):
            code, document, errors = advise(bootstrap, *options)
            assert code == 4, errors
            assert re.search(f"no broker of the cluster responds.*({reason})", errors)
            assert not document
