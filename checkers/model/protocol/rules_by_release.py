"""The rules of each release of Kafka: a table of switches.

Every switch turns one rule or one bug fix on or off. It cites the KIP or issue that introduced the
rule, and the class in Kafka's source.
"""

from dataclasses import dataclass, field, fields
from typing import Any, Final

from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest_release
from highwater.harness.releases.catalogue import CATALOGUE


def switch_field(says: str, source: str) -> Any:  # noqa: ANN401 - as dataclasses.field is typed
    """Return the field of a switch, with its meaning and its source."""
    return field(metadata={"says": says, "source": source})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of one release."""

    kraft: bool = switch_field(
        "The controller is a KRaft quorum, not a broker with ZooKeeper.",
        "KIP-500, KIP-631",
    )
    epochs: bool = switch_field(
        "A new follower asks its leader where its last epoch ended. Without this rule, the "
        "follower truncates its log to its own HW at once.",
        "KIP-101; ReplicaFetcherThread.maybeTruncate",
    )
    exact_epochs: bool = switch_field(
        "The leader's response about an epoch's end also names the epoch. The follower asks "
        "about older epochs until both logs have the same epoch.",
        "KIP-279; AbstractFetcherThread.getOffsetTruncationState",
    )
    epoch_on_election: bool = switch_field(
        "An epoch begins when its leader is elected, not with its first record.",
        "KAFKA-7415; Partition.makeLeader",
    )
    below_first_is_empty: bool = switch_field(
        "If a follower asks about an epoch before the leader's first epoch, the leader returns "
        "the start of its first epoch. Without this rule, the leader returns no offset.",
        "KAFKA-7415; LeaderEpochFileCache.endOffsetFor of 2.0.1",
    )
    no_epochs_is_undefined: bool = switch_field(
        "A leader whose log has no epochs returns no offset. Without this rule, the leader "
        "returns its LEO, and the follower truncates nothing.",
        "KAFKA-6857; LeaderEpochFileCache.endOffsetFor",
    )
    cut_on_missed_epoch: bool = switch_field(
        "A follower that missed an epoch asks again where to truncate, although the leader is the"
        " same.",
        "KAFKA-7164; Partition.makeFollower",
    )
    cut_on_new_epoch: bool = switch_field(
        "A follower asks again where to truncate whenever the epoch is new.",
        "KAFKA-7395; Partition.makeFollower of 2.1.0",
    )
    join_from_epoch_start: bool = switch_field(
        "A follower joins the ISR when it has all records that the leader had at the start of "
        "its epoch. Without this rule, it needs only the records below the leader's HW, which "
        "may be stale.",
        "KAFKA-7128; Partition.maybeExpandIsr",
    )
    fenced_questions: bool = switch_field(
        "The request for an epoch's end contains the follower's leader epoch. The leader refuses "
        "the request if its own epoch differs.",
        "KIP-320; Partition.checkCurrentLeaderEpoch",
    )
    fenced_fetches: bool = switch_field(
        "Every fetch contains the leader epoch. Up to 2.4 only the first fetch of a session "
        "contains it.",
        "KIP-320, KAFKA-9338; FetchSession.CachedPartition",
    )
    cut_on_fetch: bool = switch_field(
        "A fetch names the last epoch in the follower's log, and the response has the offset at"
        " which the logs diverge.",
        "KIP-595, KAFKA-10435, KAFKA-10554; Partition.readRecords, AbstractFetcherThread",
    )
    diverging_is_no_progress: bool = switch_field(
        "If the leader's response reports a diverging epoch, the leader does not store the LEO "
        "of that fetch.",
        "KAFKA-13141; ReplicaManager.updateFollowerFetchState",
    )
    late_fenced: bool = switch_field(
        "A follower drops the response to a fetch that it sent in an older leader epoch.",
        "KAFKA-18991; AbstractFetcherThread.processFetchRequest",
    )
    late_needs_fetching: bool = switch_field(
        "A follower that must still ask where to truncate drops a late fetch response. Without "
        "this rule, the follower appends the records and never asks.",
        "KAFKA-5163; AbstractFetcherThread.processFetchRequest, isReadyForFetch",
    )
    out_of_range_cuts: bool = switch_field(
        "A follower that is ahead of its leader truncates its log to the leader's LEO. Without "
        "this rule, the broker exits, unless unclean elections are allowed.",
        "KAFKA-7414; ReplicaFetcherThread.handleOffsetOutOfRange",
    )
    diverging_tells_hw: bool = switch_field(
        "A response with the offset at which the logs diverge also changes the follower's HW.",
        "KAFKA-14704; ReplicaFetcherThread.processPartitionData",
    )
    cut_drops_empty_epoch: bool = switch_field(
        "A truncation at the log's end drops the epoch that began there without a record.",
        "KAFKA-10706; Log.truncateTo",
    )
    elected_again_is_new: bool = switch_field(
        "A leader that missed another leader's epoch, and is elected again, forgets its "
        "followers' LEOs. Without this rule, it uses LEOs from before they truncated, and "
        "commits too much. No release has this rule.",
        "none yet, see docs/findings/elected-again.md; Partition.makeLeader, isNewLeader",
    )
    async_isr: bool = switch_field(
        "The leader asks the controller to change the ISR, and uses the larger ISR until the "
        "response arrives. Without this rule, the leader writes the ISR to ZooKeeper at once.",
        "KIP-497; AlterIsrManager",
    )
    strict_min_isr: bool = switch_field(
        "The HW does not rise while the ISR is smaller than min.insync.replicas.",
        "KIP-966, KAFKA-15583; Partition.maybeIncrementLeaderHW",
    )
    caught_up_stays: bool = switch_field(
        "A follower whose LEO equals its leader's stays in the ISR, even if it sends no request for"
        " a long time.",
        "KAFKA-7152; Partition.getOutOfSyncReplicas",
    )
    elr: bool = switch_field(
        "Replicas that leave an ISR smaller than min.insync.replicas stay eligible to lead.",
        "KIP-966; PartitionChangeBuilder",
    )
    unclean_start_leaves: bool = switch_field(
        "A broker that was killed leaves the ELR when it registers again.",
        "KIP-966; ClusterControlManager.registerBroker",
    )
    last_leader_alive: bool = switch_field(
        "The controller elects the last known leader only if this broker is alive.",
        "KAFKA-19522; PartitionChangeBuilder.electAnyLeader",
    )
    removal_bumps_epoch: bool = switch_field(
        "The leader epoch rises when the controller removes a follower from the ISR.",
        "KAFKA-15021; PartitionChangeBuilder.triggerLeaderEpochBumpForIsrShrinkIfNeeded",
    )
    live_joins_only: bool = switch_field(
        "Only an unfenced broker joins the ISR.",
        "KIP-841; Partition.isReplicaIsrEligible",
    )
    decisions_logged: bool = switch_field(
        "Every broker reads every controller decision from a log. Without this rule, decisions "
        "that a dead controller had not delivered are lost, and the next controller sends the "
        "present state.",
        "KIP-500; ControllerChannelManager, KafkaController.onControllerFailover",
    )
    joins_by_broker_epoch: bool = switch_field(
        "A leader that asks for a larger ISR also sends the broker epochs that it knows. The "
        "controller refuses a broker that has restarted since then.",
        "KIP-903, KAFKA-14139; ReplicationControlManager.ineligibleReplicasForIsr,"
        " MetadataVersion.fetchRequestVersion",
    )
    added_complete: bool = switch_field(
        "A reassignment is complete when the added replicas are in the ISR, unless it removes "
        "more replicas than it adds. Without this rule, all remaining replicas must be in the ISR.",
        "KAFKA-19975; PartitionReassignmentReplicas.maybeCompleteReassignment (in 4.3.1, not in"
        " 4.2.1)",
    )
    elr_of_replicas: bool = switch_field(
        "A replica that a reassignment removes leaves the ELR. Without this rule, a removed "
        "replica that is added again, with an empty log, is still eligible. No release has this "
        "rule.",
        "none yet, see docs/findings/removed-but-eligible.md;"
        " PartitionChangeBuilder.maybePopulateTargetElr",
    )
    partition_fails_alone: bool = switch_field(
        "If a follower cannot append a batch, it stops fetching this partition until the next "
        "leader epoch. Without this rule, the batch ends the fetcher thread permanently.",
        "KIP-461; AbstractFetcherThread.processFetchRequest",
    )


SWITCHES: Final = tuple(switch.name for switch in fields(Rules))


def rules_of(name: str, *, protocol: str = "", written: str = "") -> Rules:
    """Return the rules of a catalogued release under limits on its protocol and format.

    Args:
        name: a release such as ``2.8.2``, or ``3.9.2-zk`` for 3.9.2 on ZooKeeper.
        protocol: the newest ``inter.broker.protocol.version``, if it is not the release's own. This
            setting decides which requests followers send to leaders, and leaders send to the
            controller (``ReplicaFetcherThread``). On KRaft it is the newest ``metadata.version``,
            with the features of that release (KIP-584).
        written: the newest ``log.message.format.version``. A log in a format before 0.11 has no
            epochs. Since 2.1 the follower of such a log sends no request to a leader, and truncates
            to its HW (``AbstractFetcherThread.fetchTruncatingPartitions``).

    Raises:
        UsageError: the model does not know the release (the hint names the nearest release), or a
            limit is not a version.
    """
    if name not in RELEASES:
        raise UsageError(
            f"the model does not know Kafka release {name!r}", hint=nearest_release(name, RELEASES)
        )
    version = CATALOGUE[name].number
    spoken = min(version, numbers(protocol)) if protocol else version
    hw_alone = old_format(protocol, written) and version >= (2, 1)
    kraft = RELEASES[name]
    return Rules(
        kraft=kraft,
        epochs=spoken >= (0, 11) and not hw_alone,
        exact_epochs=spoken >= (2, 0) and not hw_alone,
        epoch_on_election=version >= (2, 0, 1),
        below_first_is_empty=version >= (2, 0, 1),
        no_epochs_is_undefined=version >= (0, 11, 0, 3),
        cut_on_missed_epoch=version >= (2, 0, 1),
        cut_on_new_epoch=version >= (2, 1),
        join_from_epoch_start=version >= (2, 0, 1),
        fenced_questions=spoken >= (2, 1),
        fenced_fetches=version >= (2, 5) and spoken >= (2, 1),
        cut_on_fetch=version >= (2, 8) and spoken >= (2, 7) and not hw_alone,
        diverging_is_no_progress=version >= (2, 8, 1),
        late_fenced=version >= (3, 9, 1) and version != (4, 0, 0),
        late_needs_fetching=version >= (1, 1),
        out_of_range_cuts=version >= (2, 0, 1),
        diverging_tells_hw=(2, 8) <= version < (3, 4, 1),
        cut_drops_empty_epoch=version >= (2, 7),
        elected_again_is_new=False,
        async_isr=spoken >= (2, 7),
        strict_min_isr=version >= (3, 7),
        caught_up_stays=version >= (2, 1),
        elr=kraft and spoken >= (4, 1),
        unclean_start_leaves=kraft and version >= (4, 0),
        last_leader_alive=version >= (4, 1),
        removal_bumps_epoch=not kraft,
        live_joins_only=kraft or version >= (3, 3),
        decisions_logged=kraft,
        joins_by_broker_epoch=kraft and spoken >= (3, 5),
        added_complete=kraft and version >= (4, 3),
        elr_of_replicas=False,
        partition_fails_alone=version >= (2, 3),
    )


def old_format(protocol: str, written: str) -> bool:
    """Return whether the limits of ``rules_of`` mean a record format without leader epochs."""
    return any(most and numbers(most) < (0, 11) for most in (protocol, written))


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version; raise ``UsageError`` if the text is not a version."""
    parts = version.split(".")
    if not all(part.isdecimal() for part in parts):
        raise UsageError(f"{version!r} is not a version", hint="Write a version such as 0.10.2.")
    return tuple(map(int, parts))


RELEASES: Final = {
    release.name: release.coordination == "kraft"
    for release in sorted(CATALOGUE.values(), key=lambda entry: entry.coordination == "kraft")
}
"""Every catalogued release, and whether it uses KRaft."""
