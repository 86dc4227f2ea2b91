"""What is said of a cluster whose facts are incomplete, mixed or new."""

from dataclasses import replace

import pytest

from highwater.checkers.hazards.evaluate import Advice, evaluate, unread, worst
from highwater.harness.releases.cluster_facts import (
    GROUPS_CODEC,
    UNCLEAN,
    VERIFICATION,
    ClusterFacts,
    ReleaseRange,
)
from tests.unit.checkers.hazards.clusters import cluster, topic

SAID = {"acks": "all", "power": "separate", "client": "librdkafka", "record-age": "60"}
SAID |= {"disks": "network", "recreated": "no"}


def of(facts: ClusterFacts, hazard: str, said: dict[str, str] = SAID) -> Advice:
    return next(advice for advice in evaluate(facts, said) if advice.hazard.id == hazard)


def test_a_new_healthy_cluster_has_only_what_has_no_cure() -> None:
    every = evaluate(cluster("4.4.0"), SAID)
    assert [advice.hazard.id for advice in every if advice.status == "can lose"] == [
        "elected-again",
        "empty-last-leader",
        "static-quorum",
    ]
    assert not [advice for advice in every if advice.status == "cannot tell"]
    assert worst(every) == "can lose"
    assert every[0].command.endswith("--kafka 4.4.0")


def test_two_replicas_and_acks_all_lose_only_with_an_empty_last_leader() -> None:
    every = evaluate(cluster("4.4.0", topic(replicas=2)), SAID)
    losing = [advice.hazard.id for advice in every if advice.status == "can lose"]
    assert losing == ["empty-last-leader", "static-quorum"]


def test_what_no_cluster_tells_is_asked_for() -> None:
    assert of(cluster(), "acks-1", {}).status == "cannot tell"
    assert of(cluster(), "acks-1", {}).reasons == ("--acks 0, 1 or all",)
    assert of(cluster(), "acks-1").reasons == ("acks=all, as you say",)
    assert of(cluster(), "power-of-all", {}).status == "cannot tell"
    assert of(cluster(), "power-of-all", {"power": "shared"}).status == "can lose"
    weak = cluster("4.4.0", topic(settings={"min.insync.replicas": "1"}))
    assert of(weak, "last-replica", {}).status == "can lose"
    assert of(weak, "last-replica", {"power": "safe"}).status == "guarded"


def test_only_the_topics_to_which_it_applies_are_named() -> None:
    facts = cluster(
        "4.4.0",
        topic("strong"),
        topic("weak", settings={"min.insync.replicas": "1"}),
        topic("small", settings={"min.insync.replicas": "1"}),
    )
    assert of(facts, "last-replica").topics == ("small", "weak")
    assert of(cluster(), "last-replica").status == "guarded"
    assert of(cluster(), "last-replica").reasons == ("min.insync.replicas=2",)


def test_the_campaign_on_the_cluster_is_in_a_topic_like_the_first_that_can_lose() -> None:
    facts = cluster(
        "4.4.0", topic("__consumer_offsets"), topic("orders"), topic("single", replicas=1)
    )
    advice = of(facts, "acks-1", {"acks": "1"})
    assert advice.campaign == f"{advice.hazard.campaign} --like orders"
    assert advice.campaign.startswith("highwater run --inventory FILE --acks 1 --nemesis ")
    own = of(cluster("4.4.0", topic("__consumer_offsets")), "acks-1", {"acks": "1"})
    assert own.campaign == own.hazard.campaign
    assert not of(facts, "elected-again").campaign


def test_settings_that_could_not_be_read_are_asked_for() -> None:
    unread_topic = replace(topic(), settings=None)
    advice = of(cluster("4.4.0", unread_topic), "last-replica")
    assert advice.status == "cannot tell"
    assert "min.insync.replicas of topic events" in advice.reasons


def test_unclean_elections_on_early_kraft_are_guarded_by_a_bug() -> None:
    facts = cluster("3.7.2", topic(settings={"unclean.leader.election.enable": "true"}))
    advice = of(facts, "unclean-election")
    assert advice.status == "guarded"
    assert "KAFKA-12670" in advice.reasons[0]


@pytest.mark.parametrize(
    ("kafka", "read", "stated", "status"),
    [
        ("4.4.0", None, {}, "cannot tell"),
        ("4.4.0", True, {}, "can lose"),
        ("4.4.0", False, {}, "guarded"),
        ("4.4.0", None, {"controller-unclean": "yes"}, "can lose"),
        ("4.4.0", True, {"controller-unclean": "no"}, "guarded"),
        ("3.7.2", True, {}, "not affected"),
        ("3.9.2-zk", True, {}, "not affected"),
    ],
)
def test_controllers_decide_about_topics_without_a_setting_of_their_own(
    kafka: str, stated: dict[str, str], status: str, *, read: bool | None
) -> None:
    inherits = replace(topic(), inherits=frozenset({UNCLEAN}))
    facts = replace(cluster(kafka, inherits), unclean_controllers=read)
    assert of(facts, "controller-unclean", SAID | stated).status == status
    own = replace(cluster(kafka, topic()), unclean_controllers=read)
    assert of(own, "controller-unclean", SAID | stated).status in {"guarded", "not affected"}


def test_a_table_misses_tombstones_while_its_group_is_away() -> None:
    kept = topic(settings={"cleanup.policy": "compact", "delete.retention.ms": "86400000"})
    facts = cluster("4.4.0", kept, groups=True)
    assert of(facts, "missed-tombstone").reasons == ("--away DURATION",)
    assert of(facts, "missed-tombstone", SAID | {"away": "90000"}).status == "can lose"
    assert of(facts, "missed-tombstone", SAID | {"away": "3600"}).status == "guarded"
    assert of(facts, "expired-unread", SAID | {"away": "90000"}).status == "not affected"


def test_a_broker_of_the_releases_suffices() -> None:
    old = ReleaseRange(first=(2, 4), below=(2, 5))
    new = ReleaseRange(first=(2, 8), below=(2, 9))
    facts = cluster("2.8.2", ranges=(new, old, new))
    assert of(facts, "KAFKA-9338").status == "can lose"
    assert of(facts, "KAFKA-13141").status == "cannot tell"
    assert of(facts, "KAFKA-13141").reasons == (
        "the exact release of broker 1 (2.8.x): --kafka RELEASE",
    )


@pytest.mark.parametrize("below", [None, (4, 6)])
def test_releases_newer_than_the_catalogue_may_have_a_fix(below: tuple[int, ...] | None) -> None:
    newer = ReleaseRange(first=(4, 4) if below is None else (4, 5), below=below)
    facts = cluster("4.4.0", ranges=(newer,) * 3)
    assert of(facts, "KIP-101").status == "not affected"
    if below is None:
        assert of(facts, "elected-again").status == "cannot tell"
        assert "newer than the catalogue" in unread(facts)[0]
    assert not unread(cluster("4.4.0"))


def test_an_exact_release_beyond_the_catalogue_may_have_a_fix() -> None:
    newer = ReleaseRange(first=(4, 5, 0), below=None, exact=True)
    facts = cluster("4.4.0", ranges=(newer,))
    assert of(facts, "elected-again").status == "cannot tell"
    assert unread(facts)


def test_a_broker_that_is_not_recognised_leaves_its_release_open() -> None:
    facts = cluster("4.4.0", ranges=(None,))
    assert of(facts, "elected-again").status == "cannot tell"


def test_a_cluster_without_topics_may_have_some_that_are_not_seen() -> None:
    """Kafka does not list the topics that a user may not describe."""
    facts = replace(cluster(), topics=())
    assert {advice.status for advice in evaluate(facts, {})} == {"cannot tell"}


@pytest.mark.parametrize(
    ("kafka", "features", "clients", "seen", "status"),
    [
        ("4.4.0", {}, None, False, ("not affected", "not affected")),
        ("4.4.0", {}, None, True, ("cannot tell", "cannot tell")),
        ("4.4.0", {}, "none", True, ("guarded", "guarded")),
        ("4.4.0", {}, "librdkafka", False, ("can lose", "can lose")),
        ("4.4.0", {"transaction.version": 2}, "librdkafka", True, ("can lose", "can lose")),
        ("4.4.0", {"transaction.version": 2}, "java", True, ("guarded", "guarded")),
        ("4.4.0", {"transaction.version": 1}, "java", True, ("can lose", "guarded")),
        ("3.9.2", {}, "java", True, ("can lose", "guarded")),
        ("0.10.2.2", {}, "librdkafka", False, ("not affected", "not affected")),
    ],
)
def test_transactional_clients_have_hazards_of_their_own(
    kafka: str, features: dict[str, int], clients: str | None, seen: bool, status: tuple[str, str]
) -> None:
    facts = cluster(kafka, features=features, transactions=seen)
    answers = {"acks": "all", "power": "safe"} | ({"transactions": clients} if clients else {})
    found = {advice.hazard.id: advice for advice in evaluate(facts, answers)}
    assert (found["KAFKA-17754"].status, found["reused-sequence"].status) == status
    assert found["late-produce"].status == status[1]
    assert found["KAFKA-19446"].status == status[0]
    if status[0] == "can lose":
        assert found["KAFKA-17754"].command.endswith("--story torn-transaction")


@pytest.mark.parametrize(("kafka", "status"), [("4.1.2", "can lose"), ("4.2.1", "guarded")])
def test_late_markers_are_refused_by_brokers_of_4_2(kafka: str, status: str) -> None:
    facts = cluster(kafka, features={"transaction.version": 2}, transactions=True)
    answers = {"acks": "all", "power": "safe", "transactions": "java"}
    found = {advice.hazard.id: advice.status for advice in evaluate(facts, answers)}
    assert (found["KAFKA-19446"], found["KAFKA-17754"]) == (status, "guarded")


@pytest.mark.parametrize(
    ("client", "status"),
    [
        (None, "cannot tell"),
        ("librdkafka", "guarded"),
        ("java", "cannot tell"),
        ("java:2.7", "guarded"),
        ("java:2.8", "can lose"),
        ("java:3.9.1", "can lose"),
        ("java:3.9.2", "guarded"),
        ("java:4.0.1", "can lose"),
        ("java:4.0.2", "guarded"),
        ("java:4.1.1", "can lose"),
        ("java:4.1.2", "guarded"),
        ("java:4.2.0", "guarded"),
    ],
)
@pytest.mark.parametrize("kafka", ["0.10.2.2", "4.4.0"])
def test_a_java_producer_has_its_hazard_whatever_the_brokers_are(
    kafka: str, client: str | None, status: str
) -> None:
    answers = {"client": client} if client else {}
    found = {advice.hazard.id: advice for advice in evaluate(cluster(kafka), answers)}
    assert found["KAFKA-19012"].status == status


@pytest.mark.parametrize(
    ("hazard", "client", "status"),
    [
        ("KAFKA-19479", "java:4.1.0", "can lose"),
        ("KAFKA-19479", "java:4.1.1", "guarded"),
        ("KAFKA-18641", "java:3.6.2", "guarded"),
        ("KAFKA-18641", "java:3.9.2", "can lose"),
        ("KAFKA-18641", "java:4.0.0", "guarded"),
        ("KAFKA-18641", "librdkafka", "guarded"),
        ("KAFKA-20332", "java:4.1.2", "can lose"),
        ("KAFKA-20332", "java:4.2.1", "guarded"),
    ],
)
def test_each_hazard_of_java_has_its_own_releases(hazard: str, client: str, status: str) -> None:
    found = {advice.hazard.id: advice for advice in evaluate(cluster("4.4.0"), {"client": client})}
    assert found[hazard].status == status


@pytest.mark.parametrize(
    ("client", "unclean", "min_isr", "power", "status"),
    [
        ("franz-go", "true", "2", "safe", "guarded"),
        ("aiokafka", "true", "2", "safe", "can lose"),
        ("sarama", "false", "1", "separate", "can lose"),
        ("java:2.1.1", "true", "2", "safe", "can lose"),
        ("java:2.4.1", "true", "2", "safe", "guarded"),
        ("librdkafka", "true", "1", "separate", "guarded"),
        ("java", "true", "2", "safe", "cannot tell"),
        (None, "true", "2", "safe", "cannot tell"),
        ("kafkajs", "false", "1", "safe", "guarded"),
        ("platformatic", "false", "2", "separate", "guarded"),
    ],
)
def test_consumers_without_epochs_skip_records_after_a_truncation(
    client: str | None, unclean: str, min_isr: str, power: str, status: str
) -> None:
    settings = {"unclean.leader.election.enable": unclean, "min.insync.replicas": min_isr}
    answers = {"power": power} | ({"client": client} if client else {})
    found = {
        advice.hazard.id: advice
        for advice in evaluate(cluster("4.4.0", topic(settings=settings)), answers)
    }
    assert found["KIP-320"].status == status


@pytest.mark.parametrize("client", ["java:3.9.2", "librdkafka", "franz-go"])
def test_with_old_brokers_every_consumer_skips_them(client: str) -> None:
    facts = cluster("2.1.1", topic(settings={"unclean.leader.election.enable": "true"}))
    found = {advice.hazard.id: advice for advice in evaluate(facts, {"client": client})}
    assert found["KIP-320"].status == "can lose"


@pytest.mark.parametrize(
    ("kafka", "verified", "clients", "status"),
    [
        ("0.10.2.2", None, "java", "not affected"),
        ("0.11.0.3", None, "java", "can lose"),
        ("3.3.2", None, "librdkafka", "can lose"),
        ("3.3.2", None, None, "not affected"),
        ("3.7.2", "true", "librdkafka", "not affected"),
        ("3.7.2", "false", "librdkafka", "can lose"),
        ("4.4.0", None, "java", "not affected"),
        ("4.4.0", "false", "java", "can lose"),
    ],
)
def test_a_late_produce_is_verified_since_3_6_unless_that_is_off(
    kafka: str, verified: str | None, clients: str | None, status: str
) -> None:
    facts = cluster(kafka)
    if verified is not None:
        brokers = [
            replace(broker, settings={**(broker.settings or {}), VERIFICATION: verified})
            for broker in facts.brokers
        ]
        facts = replace(facts, brokers=tuple(brokers))
    answers = {"acks": "all", "power": "safe"} | ({"transactions": clients} if clients else {})
    [advice] = [one for one in evaluate(facts, answers) if one.hazard.id == "KAFKA-14402"]
    assert advice.status == status
    if status == "can lose":
        assert advice.command.endswith("--story hanging-transaction")


@pytest.mark.parametrize(("replicas", "power"), [(1, "separate"), (1, "safe"), (2, "separate")])
def test_one_replica_loses_with_its_machine(replicas: int, power: str) -> None:
    facts = cluster("4.4.0", topic(replicas=replicas))
    [advice] = [
        advice
        for advice in evaluate(facts, {"acks": "all", "power": power})
        if advice.hazard.id == "single-replica"
    ]
    assert (advice.status == "can lose") == (replicas == 1 and power == "separate")


@pytest.mark.parametrize(
    ("kafka", "controllers", "status"),
    [
        ("4.4.0", 1, "can lose"),
        ("4.4.0", 3, "guarded"),
        ("4.4.0", None, "cannot tell"),
        ("3.9.2-zk", None, "not affected"),
    ],
)
def test_one_controller_loses_what_the_cluster_is(
    kafka: str, controllers: int | None, status: str
) -> None:
    facts = replace(cluster(kafka), controllers=controllers)
    found = {advice.hazard.id: advice for advice in evaluate(facts, {})}
    assert found["one-controller"].status == status


@pytest.mark.parametrize(
    ("kafka", "controllers", "features", "status"),
    [
        ("4.4.0", 3, {}, "can lose"),
        ("3.3.2-kraft", 3, {}, "can lose"),
        ("4.4.0", 5, {"kraft.version": 0}, "can lose"),
        ("4.4.0", 3, {"kraft.version": 1}, "guarded"),
        ("4.4.0", 1, {}, "guarded"),
        ("4.4.0", None, {}, "cannot tell"),
        ("3.9.2-zk", None, None, "not affected"),
    ],
)
def test_an_empty_disk_votes_if_the_voters_are_fixed(
    kafka: str, controllers: int | None, features: dict[str, int] | None, status: str
) -> None:
    facts = replace(cluster(kafka, features=features), controllers=controllers)
    assert of(facts, "static-quorum").status == status


@pytest.mark.parametrize(
    ("kafka", "settings", "status"),
    [
        ("4.3.1", {"remote.storage.enable": "true", "retention.bytes": "5000000"}, "can lose"),
        ("3.9.2", {"remote.storage.enable": "true", "retention.bytes": "5000000"}, "can lose"),
        ("4.3.1", {"remote.storage.enable": "true", "retention.bytes": "-1"}, "guarded"),
        ("4.3.1", {"remote.storage.enable": "false", "retention.bytes": "5000000"}, "not affected"),
        ("4.3.1", {"remote.storage.enable": "true"}, "cannot tell"),
        ("4.4.0", {"remote.storage.enable": "true", "retention.bytes": "1"}, "not affected"),
        ("3.7.2", {"remote.storage.enable": "true", "retention.bytes": "1"}, "not affected"),
        ("2.8.2", {"retention.bytes": "1"}, "not affected"),
    ],
)
def test_a_tiered_topic_is_at_risk_by_its_size(
    kafka: str, settings: dict[str, str], status: str
) -> None:
    facts = cluster(kafka, topic(settings=settings))
    advice = of(facts, "KAFKA-20732")
    assert advice.status == status
    failed = "can lose" if kafka == "3.7.2" else "not affected"
    assert kafka[0] == "4" or of(facts, "KAFKA-17062").status == failed
    assert ("--story tiered-new-leader" in advice.command) == (status == "can lose")


@pytest.mark.parametrize(
    ("kafka", "groups", "reset", "status"),
    [
        ("4.4.0", False, None, "not affected"),
        ("4.4.0", True, None, "cannot tell"),
        ("4.4.0", True, "latest", "can lose"),
        ("0.9.0.1", False, "latest", "can lose"),
        ("0.10.2.2", True, "earliest", "guarded"),
        ("4.4.0", True, "none", "guarded"),
    ],
)
def test_groups_that_begin_at_the_latest_skip_what_is_in_new_partitions(
    kafka: str, groups: bool, reset: str | None, status: str
) -> None:
    answers = SAID | ({"offset-reset": reset} if reset else {})
    advice = of(cluster(kafka, groups=groups), "KAFKA-20539", answers)
    assert advice.status == status
    if status == "can lose":
        assert advice.command == f"highwater run --kafka {kafka} --story added-partition"
    if status == "cannot tell":
        assert advice.reasons == ("--offset-reset earliest, latest, by_duration or none",)


HOUR = {"retention.ms": "3600000"}


@pytest.mark.parametrize(
    ("kafka", "settings", "age_s", "status"),
    [
        ("4.4.0", {}, None, "cannot tell"),
        ("4.4.0", {}, "3601", "can lose"),
        ("4.4.0", {}, "3600", "guarded"),
        ("4.4.0", {"retention.ms": "-1"}, "1e9", "guarded"),
        ("4.4.0", {"message.timestamp.type": "LogAppendTime"}, "1e9", "guarded"),
        ("4.4.0", {"message.timestamp.before.max.ms": "3599999"}, "1e9", "guarded"),
        ("4.4.0", {"message.timestamp.before.max.ms": "3600000"}, "1e9", "can lose"),
        ("2.8.2", {"message.timestamp.difference.max.ms": "60000"}, "1e9", "guarded"),
        ("4.4.0", {"cleanup.policy": "compact"}, "1e9", "not affected"),
        ("4.4.0", {"cleanup.policy": "compact,delete"}, "1e9", "can lose"),
        ("0.9.0.1", {}, "1e9", "not affected"),
    ],
)
def test_retention_deletes_records_that_are_old_as_they_are_sent(
    kafka: str, settings: dict[str, str], age_s: str | None, status: str
) -> None:
    facts = cluster(kafka, topic(settings=HOUR | settings))
    advice = of(facts, "old-timestamp", {"record-age": age_s} if age_s else {})
    assert advice.status == status
    if age_s is None:
        assert advice.reasons == ("--record-age DURATION",)


@pytest.mark.parametrize(
    ("kafka", "recreated", "status"),
    [
        ("4.4.0", "yes", "can lose"),
        ("4.4.0", "no", "guarded"),
        ("3.7.2", "yes", "not affected"),
        ("3.9.2-zk", "yes", "not affected"),
    ],
)
def test_a_topic_gets_the_settings_of_a_deleted_topic(
    kafka: str, recreated: str, status: str
) -> None:
    answers = SAID | {"recreated": recreated}
    assert of(cluster(kafka), "inherited-settings", answers).status == status


@pytest.mark.parametrize(
    ("groups", "recreated", "status"),
    [
        (False, "yes", "not affected"),
        (True, None, "cannot tell"),
        (True, "yes", "can lose"),
        (True, "no", "guarded"),
    ],
)
def test_a_group_keeps_its_offset_in_a_topic_that_is_made_anew(
    groups: bool, recreated: str | None, status: str
) -> None:
    answers = SAID | {"recreated": recreated or ""}
    stated = {name: value for name, value in answers.items() if value}
    assert of(cluster("4.4.0", groups=groups), "recreated-topic", stated).status == status


@pytest.mark.parametrize(
    ("reset", "away_s", "kept", "status"),
    [
        (None, None, "10080", "cannot tell"),
        ("latest", None, "10080", "cannot tell"),
        ("latest", "604860", "10080", "can lose"),
        ("latest", "604800", "10080", "guarded"),
        ("earliest", "604860", "10080", "guarded"),
        ("latest", "604860", None, "cannot tell"),
    ],
)
def test_a_group_whose_offsets_expire_skips_what_was_written(
    reset: str | None, away_s: str | None, kept: str | None, status: str
) -> None:
    answers = {"offset-reset": reset, "away": away_s}
    facts = cluster("4.4.0", groups=True)
    settings = {"offsets.retention.minutes": kept} if kept else {}
    brokers = tuple(replace(broker, settings=settings) for broker in facts.brokers)
    stated = SAID | {name: value for name, value in answers.items() if value}
    assert of(replace(facts, brokers=brokers), "expired-positions", stated).status == status


@pytest.mark.parametrize(
    ("away_s", "policy", "status"),
    [
        ("86401", "compact", "can lose"),
        ("86401", "compact,delete", "can lose"),
        ("86400", "compact", "guarded"),
        ("86401", "delete", "guarded"),
        (None, "compact", "cannot tell"),
    ],
)
def test_a_compacted_topic_forgets_before_a_broker_is_back(
    away_s: str | None, policy: str, status: str
) -> None:
    settings = {"cleanup.policy": policy, "delete.retention.ms": "86400000"}
    facts = cluster("4.4.0", topic(settings=settings))
    stated = SAID | ({"broker-away": away_s} if away_s else {})
    assert of(facts, "delete-retention", stated).status == status


@pytest.mark.parametrize(
    ("disks", "status"),
    [("local", "can lose"), ("network", "guarded"), (None, "cannot tell")],
)
def test_two_local_disks_may_be_lost(disks: str | None, status: str) -> None:
    stated = {name: value for name, value in (SAID | {"disks": disks}).items() if value}
    assert of(cluster("4.4.0"), "two-disks", stated).status == status


@pytest.mark.parametrize(
    ("kafka", "level", "groups", "status"),
    [
        ("4.3.1", 1, True, "can lose"),
        ("4.2.1", 1, True, "can lose"),
        ("4.3.1", 1, False, "not affected"),
        ("4.3.1", 0, True, "not affected"),
        ("4.4.0", 2, True, "not affected"),
        ("4.1.2", 1, True, "can lose"),
        ("4.1.2", 0, False, "not affected"),
        ("4.0.1", 1, True, "not affected"),
        ("3.9.2-zk", 0, False, "not affected"),
    ],
)
@pytest.mark.parametrize(
    ("hazard", "story"),
    [("KAFKA-20742", "added-partition-share"), ("share-step-back", "share-step-back")],
)
def test_share_groups_skip_or_repeat_records_before_4_4(
    kafka: str, level: int, groups: bool, status: str, hazard: str, story: str
) -> None:
    facts = cluster(kafka, features={"share.version": level}, share_groups=groups)
    advice = of(facts, hazard)
    assert advice.status == status
    if status == "can lose":
        played = "4.3.1" if kafka == "4.1.2" else kafka  # with share groups by default
        assert advice.command.endswith(f"--kafka {played} --story {story}")


@pytest.mark.parametrize(
    ("kafka", "codec", "protocol", "status"),
    [
        ("4.3.1", "1", "consumer", "can lose"),
        ("4.0.2", "1", "consumer", "can lose"),
        ("4.3.1", "0", "consumer", "guarded"),
        ("4.3.1", "1", "classic", "guarded"),
        ("4.3.1", "1", None, "cannot tell"),
        ("4.3.1", None, "consumer", "cannot tell"),
        ("4.4.0", "1", "consumer", "not affected"),
        ("4.0.1", "1", "consumer", "not affected"),
    ],
)
def test_a_compressing_coordinator_forgets_a_downgrade(
    kafka: str, codec: str | None, protocol: str | None, status: str
) -> None:
    facts = cluster(kafka, groups=True)
    settings = {GROUPS_CODEC: codec} if codec else {}
    brokers = tuple(replace(broker, settings=settings) for broker in facts.brokers)
    answers = SAID | ({"group-protocol": protocol} if protocol else {})
    assert of(replace(facts, brokers=brokers), "KAFKA-20845", answers).status == status


@pytest.mark.parametrize(
    ("kafka", "features", "status"),
    [
        ("3.9.2-zk", None, ("can lose", "not affected")),
        ("2.4.1", None, ("not affected", "not affected")),
        ("3.3.2-kraft", None, ("can lose", "not affected")),
        ("3.4.1", None, ("can lose", "not affected")),
        ("3.6.2", None, ("not affected", "can lose")),
        ("3.7.2", None, ("not affected", "not affected")),
        ("4.4.0", {"metadata.version": 8}, ("can lose", "not affected")),
        ("4.4.0", {"metadata.version": 10}, ("not affected", "not affected")),
    ],
)
def test_an_emptied_replica_leads_where_its_start_is_not_told(
    kafka: str, features: dict[str, int] | None, status: tuple[str, str]
) -> None:
    facts = cluster(kafka, features=features)
    assert tuple(of(facts, id_).status for id_ in ("KAFKA-14139", "KAFKA-15221")) == status


def test_an_old_metadata_version_is_asked_for_where_features_were_not_read() -> None:
    facts = replace(cluster("4.4.0"), features=None)
    assert of(facts, "KAFKA-14139").reasons == ("the cluster's features",)
    assert of(replace(cluster("3.4.1"), features=None), "KAFKA-14139").status == "can lose"


def test_with_an_old_protocol_leaders_write_the_isr_themselves() -> None:
    assert of(cluster("2.8.2", protocol="2.6"), "KAFKA-14139").status == "not affected"


def test_what_a_condition_rules_out_is_no_guard() -> None:
    alone = cluster("4.4.0", topic(replicas=1), features={"eligible.leader.replicas.version": 0})
    assert of(alone, "acks-1", {"acks": "1"}).status == "not affected"
    assert of(alone, "acks-1", {"acks": "1"}).reasons == ("the topic's partitions have 1 replica",)
    assert of(alone, "last-known-leader", {"acks": "1"}).status == "not affected"
    unclean = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    assert of(cluster("4.4.0", topic(settings=unclean)), "upgrade-without-elr").status == (
        "not affected"
    )
    assert of(cluster("4.4.0"), "single-replica").status == "guarded"
    assert of(cluster("4.4.0"), "upgrade-without-elr").status == "guarded"


def test_reasons_name_their_topics_where_they_differ() -> None:
    facts = cluster("4.4.0", topic("pair", replicas=2), topic("three"), topic("more"))
    assert of(facts, "single-replica").reasons == (
        "the topic's partitions have 2 replicas (pair)",
        "the topic's partitions have 3 replicas (more, three)",
    )
    assert of(facts, "unclean-election").reasons == ("unclean.leader.election.enable=false",)
    assert of(facts, "unclean-election").topics == ("more", "pair", "three")


@pytest.mark.parametrize(
    ("replicas", "min_isr", "unclean", "power", "status"),
    [
        (3, "2", "false", "shared", "guarded"),
        (1, "2", "false", "separate", "can lose"),
        (1, "2", "false", "safe", "guarded"),
        (3, "1", "false", "separate", "can lose"),
        (3, "1", "false", "safe", "guarded"),
        (3, "2", "true", "safe", "can lose"),
    ],
)
@pytest.mark.parametrize(
    ("name", "hazard"),
    [
        ("__consumer_offsets", "own-positions"),
        ("__transaction_state", "own-transactions"),
        ("__share_group_state", "own-share-state"),
        ("__remote_log_metadata", "own-remote-tier"),
    ],
)
def test_kafkas_own_topics_are_looked_at(
    name: str, hazard: str, replicas: int, min_isr: str, unclean: str, power: str, status: str
) -> None:
    settings = {"min.insync.replicas": min_isr, "unclean.leader.election.enable": unclean}
    facts = cluster("4.4.0", own=(topic(name, replicas=replicas, settings=settings),))
    advice = of(facts, hazard, SAID | {"power": power})
    assert (advice.status, advice.topics) == (status, (name,))
    assert of(cluster("4.4.0"), hazard).status == "not affected"
    assert (
        of(cluster("4.4.0"), hazard)
        .reasons[0]
        .startswith(f"the cluster has no topic {name}, so it has no ")
    )


def test_an_own_topic_without_settings_is_asked_for() -> None:
    unread_topic = replace(topic("__consumer_offsets"), settings=None)
    advice = of(cluster("4.4.0", own=(unread_topic,)), "own-positions")
    assert advice.status == "cannot tell"
    assert "min.insync.replicas of topic __consumer_offsets" in advice.reasons[0]
    unread_topic = replace(unread_topic, replicas=1)
    assert of(cluster("4.4.0", own=(unread_topic,)), "own-positions").status == "can lose"


def test_the_commands_that_mend_are_for_topics_that_can_bear_them() -> None:
    weak = {"min.insync.replicas": "1"}
    facts = cluster("3.9.2", topic("a", replicas=2, settings=weak), topic("b", settings=weak))
    advice = of(facts, "last-replica")
    assert advice.topics == ("a", "b")
    [command] = advice.mend
    start = "kafka-configs.sh --bootstrap-server b1:9092 --alter --entity-type topics"
    assert command == f"{start} --entity-name b --add-config min.insync.replicas=2"
    assert not of(replace(facts, running=False), "last-replica").mend


@pytest.mark.parametrize(
    ("kafka", "elr", "partitions", "min_isr", "status"),
    [
        ("4.4.0", 1, 2, "2", "can lose"),
        ("4.1.2", 1, 2, "2", "can lose"),
        ("4.4.0", 1, 1, "2", "not affected"),
        ("4.4.0", 1, 2, "1", "not affected"),
        ("4.4.0", 0, 2, "2", "not affected"),
        ("3.9.2", 0, 2, "2", "not affected"),
    ],
)
def test_a_removed_replica_is_eligible_in_every_partition_but_the_first(
    kafka: str, elr: int, partitions: int, min_isr: str, status: str
) -> None:
    wide = replace(topic(settings={"min.insync.replicas": min_isr}), partitions=partitions)
    facts = cluster(kafka, wide, features={"eligible.leader.replicas.version": elr})
    assert of(facts, "removed-but-eligible").status == status


@pytest.mark.parametrize(
    ("level", "groups", "protocol", "status"),
    [
        (1, True, "consumer", "can lose"),
        (1, True, None, "cannot tell"),
        (1, False, None, "not affected"),
        (1, True, "classic", "guarded"),
        (0, True, "consumer", "not affected"),
    ],
)
def test_members_of_new_groups_may_own_the_same_partitions(
    level: int, groups: bool, protocol: str | None, status: str
) -> None:
    facts = cluster("4.4.0", features={"group.version": level}, groups=groups)
    answers = SAID | ({"group-protocol": protocol} if protocol else {})
    advice = of(facts, "full-heartbeat", answers)
    assert advice.status == status
    if status == "cannot tell":
        assert advice.reasons == ("--group-protocol classic or consumer",)


@pytest.mark.parametrize(
    ("kafka", "verified", "clients", "status"),
    [
        ("3.6.2", "true", "librdkafka", "can lose"),
        ("4.4.0", None, "librdkafka", "can lose"),
        ("4.4.0", "false", "librdkafka", "guarded"),
        ("4.4.0", "true", "java", "guarded"),
        ("3.9.2", "true", "java", "can lose"),
        ("3.3.2", None, "librdkafka", "not affected"),
    ],
)
def test_a_late_copy_is_remembered_where_leaders_verify(
    kafka: str, verified: str | None, clients: str, status: str
) -> None:
    new = kafka == "4.4.0"
    facts = cluster(kafka, features={"transaction.version": 2} if new else {}, transactions=True)
    settings = {} if verified is None else {VERIFICATION: verified}
    brokers = tuple(replace(broker, settings=settings) for broker in facts.brokers)
    facts = replace(facts, brokers=brokers)
    assert of(facts, "late-copy", SAID | {"transactions": clients}).status == status


@pytest.mark.parametrize(
    ("kafka", "directories", "status"),
    [
        ("3.7.0", "/a,/b", "can lose"),
        ("3.7.0", "/a", "guarded"),
        ("3.7.0", None, "not affected"),
        ("3.7.2", "/a,/b", "not affected"),
    ],
)
def test_an_empty_replica_replaces_one_in_a_failed_directory(
    kafka: str, directories: str | None, status: str
) -> None:
    facts = cluster(kafka)
    settings = {} if directories is None else {"log.dirs": directories}
    brokers = tuple(replace(broker, settings=settings) for broker in facts.brokers)
    assert of(replace(facts, brokers=brokers), "KAFKA-16234").status == status


@pytest.mark.parametrize(
    ("library", "lose"),
    [
        ("aiokafka", {"partial-commit", "KAFKA-17754", "KAFKA-19446", "late-copy"}),
        ("platformatic", {"partial-commit", "KAFKA-17754", "KAFKA-19446", "late-copy"}),
        ("none", set()),
    ],
)
def test_other_libraries_have_hazards_of_their_own_and_of_the_protocol(
    library: str, lose: set[str]
) -> None:
    answers = SAID | {"transactions": library}
    every = evaluate(cluster("4.4.0", transactions=True, features={}), answers)
    clients = {*lose, "reused-sequence", "partial-commit", "late-produce"}
    found = {advice.hazard.id for advice in every if advice.status == "can lose"}
    assert found & clients == lose


@pytest.mark.parametrize("library", ["platformatic", "kafkajs"])
def test_a_library_that_mixes_up_its_sequence_numbers_is_named(library: str) -> None:
    hazards = {"platformatic": "mixed-numbers", "kafkajs": "returned-sequence"}
    for name, hazard in hazards.items():
        status = "can lose" if name == library else "guarded"
        assert of(cluster("4.4.0"), hazard, {"client": library}).status == status
        assert of(cluster("4.4.0"), hazard, {}).status == "cannot tell"


def test_a_group_that_begins_by_duration_finds_new_partitions() -> None:
    facts = cluster("4.4.0", groups=True)
    assert of(facts, "KAFKA-20539", SAID | {"offset-reset": "by_duration"}).status == "guarded"


@pytest.mark.parametrize(
    ("kafka", "written", "status"),
    [
        ("0.11.0.3", "0.11.0", "can lose"),
        ("0.11.0.3", "0.10.2", "guarded"),
        ("1.1.1", "1.1", "not affected"),
        ("0.10.2.2", "0.10.2", "not affected"),
    ],
)
def test_old_jars_do_not_read_the_new_format(kafka: str, written: str, status: str) -> None:
    facts = cluster(kafka, topic(settings={"message.format.version": written}))
    assert of(facts, "downgraded-format").status == status
