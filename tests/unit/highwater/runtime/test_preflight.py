"""A plan that cannot be done is refused before anything starts, and says what would do."""

import msgspec
import pytest

from highwater.harness.base.errors import UsageError
from highwater.harness.runs.plan import (
    PROGRAM_WORKLOAD,
    External,
    Plan,
    ProgramPlan,
    Topic,
    Workload,
)
from highwater.harness.runs.steps import FaultStep
from highwater.harness.runs.topics.topic_settings import with_settings
from highwater.runtime.preflight import check_plan

ALONE = Workload(producers=0)
GOOD = Plan(kafka="4.3.1", nemesis=("kill", "pause"), duration_s=60)

CONSUMER_GROUP = Workload(subscribe=3, group_protocol="consumer")
NO_MEMBERS = Workload(group_protocol="consumer")
SHARING = Workload(share=3)


def changed(**fields: object) -> Plan:
    return msgspec.structs.replace(GOOD, **fields)


def shared(readers: str) -> Plan:
    return changed(kafka="4.4.0", workload=SHARING, reader_client=readers)


def of_program(nemesis: str = "app-kill", **fields: object) -> Plan:
    program = msgspec.structs.replace(ProgramPlan(command=("sh",)), **fields)
    return changed(workload=PROGRAM_WORKLOAD, nemesis=(nemesis,), program=program)


def only_read(**fields: object) -> Plan:
    external = External(
        inventory="s.toml",
        cluster_id="theirs",
        brokers=(1, 2, 3),
        commands=("kill", "pause", "resume", "start", "stop"),
    )
    plan = changed(read_only="orders", driver="external", external=external, workload=ALONE)
    return msgspec.structs.replace(plan, **fields)


def keyed(*, keys: int = 5, tombstones: float = 0.1, **fields: object) -> Plan:
    workload = Workload(keys=keys, tombstones=tombstones)
    return msgspec.structs.replace(with_settings(changed(workload=workload)), **fields)


@pytest.mark.parametrize(
    "plan",
    [
        GOOD,
        only_read(nemesis=("kill", "pause", "stop", "restart", "rolling-restart", "zombie")),
        only_read(
            workload=Workload(
                producers=0, consumers=2, isolation=("read_committed", "read_uncommitted")
            )
        ),
        of_program(instances=3, match="id=(p0-[0-9]+)"),
        of_program("kill"),
        keyed(nemesis=("cleaner-kill",)),
        changed(nemesis=()),
        changed(nemesis=(), duration_s=0),
        changed(duration_s=1.5),
        changed(nemesis=("kill@majority=3", "power-failure@2", "rolling-restart=2")),
        changed(nemesis=(), story="loss", duration_s=0, workload=ALONE),
        changed(
            nemesis=(), story="unclean", topic=Topic(unclean_leader_election=True), workload=ALONE
        ),
        changed(workload=Workload(idempotence=True, compression="zstd")),
        changed(brokers=1, topic=Topic(replication_factor=1)),
        changed(workload=Workload(idempotence=True, transactions=True, transform=True)),
        changed(kafka="0.9.0.1", workload=Workload(subscribe=2, churn_s=5)),
        changed(workload=Workload(subscribe=1, isolation=("read_committed", "read_uncommitted"))),
        changed(kafka="0.10.2.2", to=("0.11.0.3", "3.9.2-zk"), nemesis=("upgrade=3", "kill")),
        changed(kafka="0.11.0.3", protocol="0.10.2"),
        changed(kafka="0.10.2.2", to=("0.11.0.3",), nemesis=("upgrade",), format="0.10.2"),
        changed(kafka="3.9.2-zk", protocol="2.8", format="0.10.2"),
        changed(kafka="3.7.2", to=("3.9.2", "4.3.1"), nemesis=("upgrade", "kill"), protocol="4.0"),
        changed(kafka="4.3.1", protocol="3.9"),
        changed(controllers=5, nemesis=("controller-kill@104", "controller-pause@majority")),
        changed(controllers=3, nemesis=("controller-disk-loss", "controller-isolate@leader")),
        changed(controllers=3, nemesis=("controller-leave@leader", "controller-replace")),
        changed(
            controllers=3,
            nemesis=(),
            steps=(FaultStep(fault="controller-kill", at_s=1, target="101"),),
        ),
        changed(nemesis=(), steps=(FaultStep(fault="controller-kill", at_s=1, target="leader"),)),
        changed(client="java"),
        changed(client="java:3.9.2", workload=Workload(idempotence=True, transactions=True)),
        changed(client="/bin/sh driver", workload=Workload(idempotence=True, churn_s=5)),
        changed(client="/bin/sh driver", workload=Workload(idempotence=True, transactions=True)),
        changed(reader_client="/bin/sh driver"),
        changed(reader_client="/bin/sh driver", workload=Workload(subscribe=2)),
        changed(kafka="0.11.0.3", client="java"),
        changed(kafka="0.10.0.1", client="kafka-python", workload=Workload(compression="gzip")),
        changed(client="aiokafka", workload=Workload(idempotence=True, transactions=True)),
        changed(kafka="0.10.2.2", client="java:3.9.2"),
        changed(kafka="0.10.2.2", reader_client="java"),
        changed(reader_client="java", workload=Workload(subscribe=2, group_protocol="consumer")),
        changed(reader_client="java:2.8.2", workload=Workload(subscribe=2, churn_s=5)),
        changed(reader_client="aiokafka", workload=Workload(subscribe=2, consumers=0)),
        changed(kafka="4.1.2", workload=SHARING, reader_client="java"),
        changed(kafka="4.4.0", workload=SHARING, reader_client="java:4.1.2"),
        changed(controllers=3, kafka="0.9.0.1", driver="local", nemesis=("controller-disk-loss",)),
        changed(
            nemesis=("unclean-election", "set-unclean"), topic=Topic(unclean_leader_election=True)
        ),
    ],
)
def test_what_can_be_done_passes(plan: Plan) -> None:
    check_plan(plan)


@pytest.mark.parametrize(
    ("plan", "message", "hint"),
    [
        (changed(kafka="0.10.2.1"), "0.10.2.1", "0.10.2.2"),
        (changed(kafka="four"), "four", "4.3.1"),
        (changed(driver="podman"), "podman", "local"),
        (changed(driver="docker", kafka="0.10.0.1"), "two listeners", "local"),
        (changed(nemesis=("kil",)), "kil", "kill"),
        (changed(nemesis=("kill@9",)), "no broker 9", "Brokers are 1 to 3"),
        (changed(nemesis=("kill@leader",), brokers=0), "brokers", "From 1"),
        (changed(nemesis=("kill@ledaer",)), "ledaer", "leader"),
        (changed(nemesis=("app-kill",)), "hits a program under test", "Use highwater app"),
        (of_program("app-kill@leader"), "hits the program", "app-kill alone"),
        (of_program(command=("/no/such",)), "program '/no/such' does not exist", "after --"),
        (of_program(command=()), "no command was named", "after --"),
        (of_program(out="events"), "cannot both read and write events", "two topics"),
        (of_program(out="a/b"), "not a valid topic name", "letters"),
        (of_program(match="("), "is not a regular expression", "$.order_id"),
        (of_program(match="$["), "is not a JSONPath", "$.order_id"),
        (of_program(env=("{bootstrap}",)), "does not set a variable", "BROKERS="),
        (of_program(feed="/no/such.jsonl"), "cannot be read", "one JSON object"),
        (
            msgspec.structs.replace(of_program(feed="/no"), client="aiokafka"),
            "needs one producer, of librdkafka",
            "--feed",
        ),
        (of_program(instances=0), "0 instances", "From 1 to 64"),
        (changed(nemesis=("kill=0",)), "weight 0", "1 to 100"),
        (changed(nemesis=("kill@leader@2",)), "does not have the form", "kill@leader=3"),
        (changed(nemesis=("kill@controller",)), "on KRaft", "controller-kill"),
        (changed(nemesis=("controller-kill@1",)), "no node 1", "controller-kill alone"),
        (
            changed(nemesis=("torn-files",), driver="local"),
            "needs a trace of flushes",
            "--trace-flushes",
        ),
        (changed(trace_flushes=True, driver="docker"), "processes of this machine", "local"),
        (changed(racks=4), "racks", "0 to 3"),
        (changed(racks=3, kafka="2.1.1"), "only from leaders", "since 2.4"),
        (changed(kafka="3.9.2", workload=CONSUMER_GROUP), "the consumer group protocol", "4.0"),
        (
            changed(kafka="4.4.0", workload=CONSUMER_GROUP, protocol="4.0"),
            "4.0 may not support",
            "--prot",
        ),
        (changed(kafka="4.4.0", workload=NO_MEMBERS), "needs members", "--subscribe 3"),
        (
            changed(kafka="4.0.2", workload=SHARING),
            "4.0.2 do not support share groups",
            "with Kafka 4.1",
        ),
        (
            changed(kafka="4.4.0", workload=SHARING, protocol="4.3"),
            "not support share groups",
            "KIP-932",
        ),
        (changed(kafka="4.1.2", workload=SHARING), "member ids", "--reader-client java"),
        (shared("kafka-python"), "no share consumers", "--reader-client java"),
        (shared("aiokafka"), "no share consumers", "--reader-client java"),
        (shared("java:4.0.2"), "came with 4.1", "--reader-client java"),
        (changed(kafka="4.4.0", workload=Workload(share=65)), "65 members", "From 0 to 64"),
        (changed(log_dirs=2, driver="docker"), "one log directory", "local"),
        (changed(log_dirs=10), "log directories", "1 to 9"),
        (changed(tiered=True, driver="docker", kafka="4.3.1"), "no common directory", "local"),
        (changed(tiered=True, kafka="3.3.2"), "no tiered storage", "KIP-405"),
        (changed(log_dirs=2, nemesis=(), story="loss", workload=ALONE), "a story", "nemesis"),
        (keyed(kafka="0.9.0.1"), "Kafka 0.9.0.1 does not store timestamps", "--keys"),
        (keyed(kafka="0.10.2.2", format="0.9.0"), "the message format of 0.9.0", "--keys"),
        (keyed(client="java"), "which only librdkafka sends", "--keys"),
        (keyed(tiered=True, kafka="4.3.1"), "no remote tier", "--tiered"),
        (keyed(keys=2_000_000), "2,000,000 record keys", "1,000,000"),
        (keyed(tombstones=1.5), "records that delete", "From 0 to 1"),
        (keyed(topic=Topic()), "not be compacted", "--keys"),
        (changed(nemesis=("cleaner-kill",)), "a compacted topic", "--keys 100"),
        (changed(nemesis=("log-dir-failure",)), "several log directories", "--log-dirs 2"),
        (
            changed(kafka="0.11.0.3", log_dirs=2, nemesis=("log-dir-failure",)),
            "a broker exits at once",
            "where faults are not available",
        ),
        (changed(controllers=0), "controllers", "From 1 to 5"),
        (changed(controllers=7), "controllers", "From 1 to 5"),
        (changed(controllers=4), "4 controllers", "1, 3 or 5"),
        (
            changed(controllers=3, nemesis=("controller-kill@1",)),
            "has no node 1",
            "100 or 101 or 102",
        ),
        (changed(nemesis=("controller-kill@minority",)), "no minority", "--controllers 3"),
        (changed(nemesis=("controller-disk-loss",)), "needs a quorum", "--controllers 3"),
        (
            changed(controllers=3, nemesis=("controller-disk-loss@majority",)),
            "cannot recover its lost records",
            "@minority",
        ),
        (changed(nemesis=("controller-leave",)), "needs a quorum", "--controllers 3"),
        (
            changed(controllers=3, kafka="3.7.2", nemesis=("controller-leave",)),
            "controller-leave is not available on Kafka 3.7.2 by local: only KRaft from 3.9",
            "docs/faults.md",
        ),
        (
            changed(controllers=3, kafka="2.8.2", nemesis=("controller-replace",)),
            "only KRaft from 3.9 on can add and remove voters",
            "docs/faults.md",
        ),
        (
            changed(controllers=3, kafka="2.8.2", driver="docker", nemesis=("controller-isolate",)),
            "do not pass the relay",
            "docs/faults.md",
        ),
        (
            changed(
                controllers=3,
                nemesis=(),
                steps=(FaultStep(fault="controller-kill", at_s=1, target="103"),),
            ),
            "has no node 103",
            "controller-kill alone",
        ),
        (changed(nemesis=("session-expiry",)), "on KRaft", "docs/faults.md"),
        (changed(nemesis=("cpu-starved",), driver="local"), "only containers", "docs/faults.md"),
        (
            changed(nemesis=("disk-stall",), trace_flushes=True, driver="local"),
            "already traces flushes",
            "--trace-flushes",
        ),
        (changed(nemesis=("client-clock-bump",)), "run in Highwater's own", "--client java"),
        (changed(nemesis=("client-clock-bump@leader",)), "hits the clients", "alone"),
        (changed(nemesis=("dns-fails",), kafka="0.9.0.1"), "KIP-103", "docs/faults.md"),
        (changed(nemesis=("epochs-missing",), kafka="0.10.2.2"), "KIP-101", "docs/faults.md"),
        (changed(story="loss"), "not both", "Leave out"),
        (changed(nemesis=("unclean-election",)), "clean elections", "--unclean"),
        (changed(nemesis=("upgrade",)), "releases to upgrade to", "--to"),
        (
            changed(kafka="0.10.2.2", nemesis=("upgrade",)),
            "releases to upgrade to",
            "--to 0.11.0.3",
        ),
        (changed(kafka="0.10.2.2", to=("0.11.0.3",)), "upgrades a broker", "--nemesis"),
        (changed(kafka="2.8.2", to=("0.11.0.3",)), "cannot be upgraded to", "oldest to the newest"),
        (changed(kafka="2.8.2", to=("2.8",)), "not in the catalogue", "2.8.2"),
        (changed(kafka="2.8.2", to=("4.3.1",)), "and 4.3.1 on KRaft", "KIP-866"),
        (changed(protocol="3.8"), "metadata.version '3.8'", "3.7, 3.9, 4.0, 4.1, 4.2, 4.3, 4.4"),
        (changed(kafka="3.9.2", protocol="4.0"), "no protocol 4.0", "At most 3.9"),
        (changed(format="2.8"), "no log.message.format.version", "--protocol 3.9"),
        (changed(kafka="2.8.2", protocol="3.0"), "no protocol 3.0", "At most 2.8"),
        (changed(kafka="2.8.2", format="2.8.2"), "is not a version", "2.8"),
        (changed(kafka="2.8.2", protocol="0.10.2", format="1.1"), "no message format", "first"),
        (changed(kafka="3.9.2-zk", format="0.10.2"), "KIP-724", "--protocol 2.8"),
        (changed(nemesis=(), story="los"), "los", "loss"),
        (changed(brokers=0), "brokers", "From 1"),
        (changed(brokers=2), "replicas", "From 1 to 2"),
        (changed(topic=Topic(partitions=0)), "partitions", "From 1"),
        (changed(topic=Topic(min_insync_replicas=4)), "min.insync.replicas", "From 1 to 3"),
        (changed(workload=Workload(producers=-1)), "producers", "From 0"),
        (changed(workload=Workload(record_bytes=1)), "bytes", "From 16"),
        (changed(workload=Workload(compression="zip")), "zip", "gzip"),
        (changed(workload=Workload(acks="1", idempotence=True)), "acks=all", "--acks all"),
        (changed(kafka="0.10.2.2", workload=Workload(idempotence=True)), "idempotent", "0.11.0"),
        (changed(kafka="0.10.2.2", workload=Workload(compression="zstd")), "zstd", "lz4"),
        (
            changed(kafka="0.10.2.2", workload=Workload(transactions=True)),
            "does not support transactions",
            "0.11.0",
        ),
        (changed(workload=Workload(transactions=True)), "idempotent", "--acks all"),
        (changed(workload=Workload(transform=True)), "--transform", "--transactions"),
        (
            changed(workload=Workload(idempotence=True, transactions=True, producers=0)),
            "need producers",
            "--producers 3",
        ),
        (changed(workload=Workload(aborts=1.5)), "transactions to abort", "From 0 to 1"),
        (changed(workload=Workload(subscribe=-1)), "members", "From 0"),
        (changed(workload=Workload(churn_s=0.1)), "live 0.1 s", "From 1s"),
        (
            changed(workload=Workload(isolation=("read_committed", "read_uncommitted"))),
            "2 isolation levels",
            "--consumers 2",
        ),
        (changed(client="ruby"), "no client is called 'ruby'", "java"),
        (changed(client="java:9.9"), "9.9", ""),
        (changed(client="./no-driver"), "./no-driver is not an executable program", "librdkafka"),
        (
            changed(reader_client="./no-driver"),
            "./no-driver is not an executable program",
            "librdkafka",
        ),
        (changed(client="librdkafka:1"), "librdkafka has no release '1'", "java:RELEASE"),
        (changed(kafka="0.11.0.3", client="java:4.4.0"), "cannot connect to 0.11.0.3", "java:"),
        (
            changed(kafka="2.8.2", to=("3.9.2-zk",), nemesis=("upgrade",), client="java:9"),
            "9",
            "",
        ),
        (
            changed(
                client="java:2.1.1",
                kafka="3.9.2",
                workload=Workload(idempotence=True, transactions=True, transform=True),
            ),
            "do not read in transactions: consumers before 2.5",
            "--client librdkafka",
        ),
        (
            changed(kafka="2.8.2", client="java:0.10.2.2", workload=Workload(idempotence=True)),
            "0.10.2.2 do not support idempotent producers",
            "java:RELEASE",
        ),
        (
            changed(client="java:2.1.1", workload=Workload(compression="lz5")),
            "not support compression 'lz5'",
            "",
        ),
        (changed(kafka="0.10.2.2", client="aiokafka"), "records of format 2", "librdkafka"),
        (
            changed(kafka="0.9.0.1", client="kafka-python"),
            "cannot connect to 0.9.0.1",
            "librdkafka",
        ),
        (
            changed(client="kafka-python", workload=Workload(compression="lz4")),
            "kafka-python's clients do not support compression lz4",
            "librdkafka",
        ),
        (
            changed(nemesis=(), story="wrong-topic", workload=ALONE, topic=Topic(partitions=4)),
            "needs Kafka's Java producer",
            "--client java",
        ),
        (changed(reader_client="ruby"), "no client is called 'ruby'", "java"),
        (
            changed(reader_client="java", workload=Workload(consumers=0)),
            "the run has no readers",
            "--reader-client librdkafka",
        ),
        (
            changed(kafka="0.11.0.3", reader_client="java:4.4.0"),
            "cannot connect to 0.11.0.3",
            "java:RELEASE",
        ),
        (
            changed(kafka="2.0.1", reader_client="java", workload=Workload(subscribe=2)),
            "do not report the generation",
            "java:RELEASE",
        ),
        (
            changed(
                reader_client="java:3.9.2",
                workload=Workload(subscribe=2, group_protocol="consumer"),
            ),
            "a preview of KIP-848",
            "java:RELEASE",
        ),
        (
            changed(
                reader_client="aiokafka", workload=Workload(subscribe=2, group_protocol="consumer")
            ),
            "Python clients support classic groups only",
            "librdkafka",
        ),
        (
            changed(reader_client="kafka-python", workload=Workload(compression="lz4")),
            "kafka-python's clients do not support compression lz4",
            "librdkafka",
        ),
        (changed(reader_client="java", racks=3), "the broker from which", "librdkafka"),
        (changed(duration_s=-1), "seconds of faults", "From 0"),
        (changed(duration_s=0), "0 s are too short", "1.5s"),
        (changed(duration_s=1.49), "at least 1.5 s", "1.5s"),
        (
            changed(nemesis=(), story="loss", brokers=2, topic=Topic(replication_factor=2)),
            "three replicas",
            "--brokers 3",
        ),
        (
            changed(nemesis=(), story="loss", topic=Topic(min_insync_replicas=2)),
            "one replica alive",
            "--min-isr 1",
        ),
        (changed(nemesis=(), story="loss"), "sends every record itself", "--producers"),
        *(
            (plan, message, "docs/external.md describes runs that only read.")
            for plan, message in (
                (changed(read_only="orders"), "--read-only orders is not possible here: it needs"),
                (only_read(story="leader-kill", nemesis=()), "a story sends records"),
                (only_read(program=ProgramPlan(command=("sh",))), "a program writes"),
                (only_read(workload=Workload(producers=1)), "only readers, without a group"),
                (only_read(workload=Workload(producers=0, subscribe=1)), "without a group"),
                (only_read(workload=Workload(producers=0, acks="1")), "starts only readers"),
                (only_read(workload=Workload(producers=0, consumers=0)), "it needs a reader"),
                (only_read(reader_client="java"), "it reads with librdkafka"),
                (only_read(max_outage_s=3.0), "without an acknowledgement cannot be measured"),
                (only_read(nemesis=("kill", "set-retention")), "the fault set-retention does more"),
                (only_read(nemesis=("decommission",)), "the fault decommission does more"),
            )
        ),
    ],
)
def test_what_cannot_be_done_is_refused(plan: Plan, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_plan(plan)
    assert message in refused.value.message
    assert hint in refused.value.hint
