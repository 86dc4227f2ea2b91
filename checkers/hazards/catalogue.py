"""The catalogue of the hazards that this project has shown on real brokers or in the model.

To add a hazard, add one entry here. An entry has ranges of releases, because most releases of Kafka
are not in the catalogue of releases. For every release in that catalogue, a test compares the
ranges with the model's rules, and the conditions with the outcome of the story in the model.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from highwater.checkers.hazards.conditions import (
    AnyOf,
    ClientOption,
    ConsumerGroups,
    Controllers,
    Feature,
    JavaProducers,
    On,
    Releases,
    Replicas,
    Setting,
    ShareGroups,
    TransactionalClients,
    Unclean,
)
from highwater.checkers.hazards.hazard import Hazard
from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.releases.cluster_facts import (
    BROKER_EPOCHS,
    ELR_FEATURE,
    METADATA_FEATURE,
    POSITIONS,
    REMOTE_TIER,
    SHARE_GROUPS,
    TRANSACTIONS,
    VERIFICATION,
)

_MIN_ISR: Final = "min.insync.replicas"
_PROTOCOL: Final = "inter.broker.protocol.version"
_FORMAT: Final = "message.format.version"

_POWER: Final = ClientOption("power", ("shared", "separate"), unknown="yes")
"""Unless the user says otherwise, a machine can lose its power."""

_WITH_EPOCHS: Final = Setting(_PROTOCOL, ">=", "0.11", scope="broker", guards=False)
"""With an older protocol a follower asks no leader for epochs: that is hazard old-protocol."""

_SINCE_2_7: Final = Setting(_PROTOCOL, ">=", "2.7", scope="broker", absent="yes", guards=False)
"""From protocol 2.7 on, and always on KRaft, followers truncate on fetch (KIP-595), and leaders
ask the controller to change the ISR (KIP-497)."""

_FROM_2: Final = Setting(_MIN_ISR, ">=", "2", guards=False)
"""A lower min.insync.replicas is the hazard last-replica, which no release cures."""

_WEAK: Final = AnyOf(
    (
        (Replicas("=", 1), _POWER),
        (Setting(_MIN_ISR, "=", "1"), _POWER),
        (Unclean(allowed=True),),
    )
)
_WEAKLY: Final = (
    "if its only replica loses power or its disk; with min.insync.replicas=1, if the last in-sync"
    " replica does; or by an unclean election"
)
_OWN_CURE: Final = (
    "Three replicas (kafka-reassign-partitions), min.insync.replicas=2 (kafka-configs) and no"
    " unclean elections for {topic}; before brokers create it, set their defaults for it."
)
_ALONE: Final = (
    "highwater run --kafka {kafka} --brokers 1 --nemesis power-failure --for 20s --seed 3"
)
"""Kafka's internal topics have one replica on a single broker, and lose what is not flushed."""

_SILENT: Final = "An acknowledged record; only a reader that knows what was sent notices."

_ENTRIES: Final = (
    Hazard(
        id="elected-again",
        title="Three planned moves of leadership lose a record that acks=all acknowledged.",
        loses=_SILENT,
        conditions=(On("kraft"), Releases((((3, 3), None),)), Replicas(">=", 3)),
        schedule=(
            "Leadership moves away from a broker that is slow to read its metadata, and back; the"
            " broker keeps its old state of the followers, and acknowledges what they have since"
            " truncated. Then leadership moves on, or that broker is restarted cleanly."
        ),
        cure=(
            "No setting helps. After each planned move wait until every broker has applied it"
            " before the next one, also in rolling restarts and with a rebalancer."
        ),
        cost="Slower rolling restarts and rebalancing.",
        evidence="replay",
        command="highwater model replay elected-again-4.3.1.json --kafka {kafka}",
        counterexample="elected-again-4.3.1.json",
        source="Partition.makeLeader (isNewLeader) of 3.3.0 and 3.9.0",
    ),
    Hazard(
        id="missed-decisions",
        title="A leader that missed a dead controller's decisions keeps its followers' old state.",
        loses=_SILENT,
        conditions=(On("zookeeper"), Releases((((0, 11), (4, 0)),)), Replicas(">=", 3)),
        schedule=(
            "Leadership moves away from a broker that the controller does not reach, and back."
            " Then the controller dies, and the decisions that it has not delivered are lost. The"
            " next controller lets that broker lead in a new epoch; the broker keeps its old state"
            " of the followers, and acknowledges what they have since truncated. Then leadership"
            " moves on. On KRaft this is elected-again, where no controller has to die."
        ),
        cure=(
            "No setting helps. After each planned move wait until every broker has applied it"
            " before the next move, and move nothing while a broker does not answer."
        ),
        cost="Slower rolling restarts and rebalancing.",
        evidence="story",
        command="highwater run --kafka {kafka} --story missed-decisions",
        played_on="3.9.2-zk",
        source="Partition.makeLeader (isNewLeader) of 0.11.0.0 and 3.9.0",
    ),
    Hazard(
        id="KIP-101",
        title="A follower truncates committed records to its own high watermark.",
        loses=_SILENT,
        conditions=(Releases((((0,), (0, 11)),)), Replicas(">=", 2)),
        schedule=(
            "A follower has a committed record and does not know yet that it is committed. Its"
            " leader fails or moves; the follower truncates the record and becomes the leader."
        ),
        cure="Upgrade the brokers to 0.11 or later, their protocol and message format included.",
        cost="An upgrade.",
        evidence="story",
        command="highwater run --kafka {kafka} --story loss",
        counterexample="hw-cut-0.10.2.2.json",
        played_on="0.10.2.2",
        source="LeaderEpochFileCache, which is in 0.11.0.0 and not in 0.10.2.2",
    ),
    Hazard(
        id="old-protocol",
        title="New brokers that speak a protocol from before 0.11 truncate as 0.10 does.",
        loses=_SILENT,
        conditions=(
            On("zookeeper"),
            Releases((((0, 11), (4, 0)),)),
            Setting(_PROTOCOL, "<", "0.11", scope="broker"),
            Replicas(">=", 2),
        ),
        schedule="An upgrade changed the jars but not the protocol; then as in KIP-101.",
        cure=f"Set {_PROTOCOL} to the release of the brokers, and restart them one by one.",
        cost="A rolling restart; afterwards there is no way back to 0.10.",
        evidence="story",
        command="highwater run --kafka {kafka} --protocol 0.10.2 --story loss",
        played_on="0.11.0.3",
        source="ReplicaFetcherThread (KAFKA_0_11_0_IV2) of 0.11.0.0 and 2.8.2",
    ),
    Hazard(
        id="old-format",
        title="A topic in a message format from before 0.11 has no leader epochs.",
        loses=_SILENT,
        conditions=(
            On("zookeeper"),
            Releases((((0, 11, 0, 3), (1, 0)), ((1, 0, 2), (1, 1)), ((1, 1, 1), (4, 0)))),
            _WITH_EPOCHS,
            Setting(_PROTOCOL, "<", "3.0", scope="broker"),
            Setting(_FORMAT, "<", "0.11", absent="no"),
            Replicas(">=", 2),
        ),
        schedule=(
            "An upgrade left the message format as it was. A follower without epochs truncates to"
            " its high watermark: up to 2.0 only if its new leader answers, since 2.1 always."
        ),
        cure=f"Set {_FORMAT} of the topic, or log.message.format.version, to 0.11 or later.",
        cost="Brokers convert records for clients from before 0.11.",
        evidence="story",
        command="highwater run --kafka {kafka} --format 0.10.2 --story held-fetch --wire",
        played_on="2.0.1",
        source="LogConfig.shouldIgnoreMessageFormatVersion, in 3.0.0 and not in 2.8.2 (KIP-724)",
    ),
    Hazard(
        id="KIP-279",
        title="A follower keeps records that its leader does not have: in-sync replicas fork.",
        loses="Readers get different records at the same offset, depending on the leader.",
        conditions=(
            On("zookeeper"),
            Releases((((0, 11), (2, 0, 1)),)),
            _WITH_EPOCHS,
            Replicas(">=", 3),
        ),
        schedule=(
            "After several planned moves the leader's answer does not say which epoch it is for,"
            " or the leader knows nothing below its first epoch."
        ),
        cure="Upgrade the brokers to 2.0.1 or later.",
        cost="An upgrade.",
        evidence="replay",
        command="highwater model replay kip-279-1.1.1.json --kafka {kafka}",
        counterexample="kip-279-1.1.1.json",
        played_on="2.0.0",
        played_from=(0, 11, 0, 3),
        source="LeaderEpochFileCache.endOffsetFor (subsequentEpochs) of 2.0.0 and 2.0.1",
    ),
    Hazard(
        id="KAFKA-6857",
        title="A log in an old message format has no epochs, and followers truncate nothing.",
        loses="Readers get different records at the same offset, depending on the leader.",
        conditions=(
            On("zookeeper"),
            Releases((((0, 11), (0, 11, 0, 3)), ((1, 0), (1, 0, 2)), ((1, 1), (1, 1, 1)))),
            _WITH_EPOCHS,
            Setting(_FORMAT, "<", "0.11", absent="no"),
            Replicas(">=", 3),
        ),
        schedule="Leadership moves as planned; a leader without epochs answers with its log's end.",
        cure="Upgrade the brokers to 2.0.1 or later, and the topic's message format.",
        cost="An upgrade.",
        evidence="replay",
        command="highwater model replay kafka-6857-0.11.0.2.json --kafka {kafka}",
        counterexample="kafka-6857-0.11.0.2.json",
        played_on="0.11.0.2",
        source="LeaderEpochFileCache.endOffsetFor (UNDEFINED_EPOCH) of 0.11.0.2, 1.0.1, 1.1.0 and"
        " the releases after them",
    ),
    Hazard(
        id="KAFKA-9338",
        title="A fetch in another leader epoch counts as progress of a follower.",
        loses=_SILENT,
        conditions=(
            On("zookeeper"),
            Releases((((0, 11), (2, 5)),)),
            _WITH_EPOCHS,
            Replicas(">=", 3),
        ),
        schedule="Leadership moves as planned, and one broker is slow to learn of it.",
        cure="Upgrade the brokers to 2.5 or later.",
        cost="An upgrade.",
        evidence="replay",
        command="highwater model replay kafka-9338-2.4.1.json --kafka {kafka}",
        counterexample="kafka-9338-2.4.1.json",
        played_on="2.4.1",
        played_from=(2, 4),
        source="FetchSession.CachedPartition (leaderEpoch) of 2.4.1 and 2.5.0",
    ),
    Hazard(
        id="KAFKA-7415",
        title="A leader without records in its epoch lets a follower truncate too much.",
        loses=_SILENT,
        conditions=(
            On("zookeeper"),
            Releases((((0, 11), (2, 0, 1)),)),
            _WITH_EPOCHS,
            Replicas(">=", 3),
        ),
        schedule=(
            "Leadership moves as planned. The new leader has appended nothing yet, so it does not"
            " know its own epoch, and makes an older follower truncate to the previous epoch."
        ),
        cure="Upgrade the brokers to 2.0.1 or later.",
        cost="An upgrade.",
        evidence="replay",
        command="highwater model replay kafka-7415-2.0.0.json --kafka {kafka}",
        counterexample="kafka-7415-2.0.0.json",
        played_on="2.0.0",
        played_from=(2, 0),
        source="Partition.makeLeader (epochCache.assign) of 2.0.0 and 2.0.1",
    ),
    Hazard(
        id="KAFKA-7164",
        title="A follower that missed a leader epoch does not ask where to truncate.",
        loses="Readers get different records at the same offset, depending on the leader.",
        conditions=(
            On("zookeeper"),
            Releases((((0, 11), (2, 0, 1)),)),
            _WITH_EPOCHS,
            Replicas(">=", 3),
        ),
        schedule=(
            "A pause ends a broker's session, and leadership moves away and back. The follower sees"
            " the same leader, so it keeps what its leader has since truncated."
        ),
        cure="Upgrade the brokers to 2.0.1 or later.",
        cost="An upgrade.",
        evidence="replay",
        command="highwater model replay kafka-7164-2.0.0.json --kafka {kafka}",
        counterexample="kafka-7164-2.0.0.json",
        played_on="2.0.0",
        played_from=(2, 0),
        source="Partition.makeFollower (oldLeaderEpoch) of 2.0.0 and 2.0.1",
    ),
    Hazard(
        id="KAFKA-7128",
        title="A follower joins the ISR without committed records: the new leader's HW is old.",
        loses=_SILENT,
        conditions=(
            On("zookeeper"),
            Releases((((0, 11), (2, 0, 1)),)),
            _WITH_EPOCHS,
            Replicas(">=", 3),
        ),
        schedule=(
            "A follower lags and leaves the ISR. Leadership moves to a replica with an old HW; the"
            " follower has reached that HW, so it joins the ISR, and leads."
        ),
        cure="Upgrade the brokers to 2.0.1 or later.",
        cost="An upgrade.",
        evidence="replay",
        command="highwater model replay kafka-7128-2.0.0.json --kafka {kafka}",
        counterexample="kafka-7128-2.0.0.json",
        played_on="2.0.0",
        played_from=(2, 0),
        source="Partition.maybeExpandIsr (leaderEpochStartOffsetOpt) of 2.0.0 and 2.0.1",
    ),
    Hazard(
        id="KAFKA-13141",
        title="A fetch that is answered with a diverging epoch counts as progress.",
        loses=_SILENT,
        conditions=(
            On("zookeeper"),
            Releases((((2, 8), (2, 8, 1)),)),
            _SINCE_2_7,
            Replicas(">=", 3),
        ),
        schedule=(
            "Leadership moves away and back. Before the first leader learns that it leads again, it"
            " fetches as a follower and truncates; the other leader takes this fetch for progress,"
            " and commits a record that the first leader lacks."
        ),
        cure="Upgrade the brokers to 2.8.1 or later.",
        cost="An upgrade.",
        evidence="replay",
        command="highwater model replay kafka-13141-2.8.0.json --kafka {kafka}",
        counterexample="kafka-13141-2.8.0.json",
        played_on="2.8.0",
        source="ReplicaManager.updateFollowerFetchState (divergingEpoch) of 2.8.0 and 2.8.1",
    ),
    Hazard(
        id="KAFKA-18991",
        aliases=("late-answer",),
        title="A late fetch answer from an older leader epoch truncates committed records.",
        loses=_SILENT,
        conditions=(
            Releases((((2, 8), (3, 9, 1)), ((4, 0), (4, 0, 1)))),
            _SINCE_2_7,
            Replicas(">=", 3),
        ),
        schedule=(
            "A follower has a record that its new leader lacks. The response that says so is slow"
            " on its way; leadership moves on, and back to that leader. Meanwhile the follower has"
            " truncated for another leader, and fetched as many records again. Then the old answer"
            " arrives, and the follower truncates those; before it has fetched them again, it"
            " leads."
        ),
        cure="Upgrade the brokers to 3.9.1, 4.0.1 or later.",
        cost="An upgrade.",
        evidence="story",
        command="highwater run --kafka {kafka} --story late-answer",
        played_on="3.9.0",
        source="AbstractFetcherThread (isTruncationOnFetchSupported), in 2.8.0 and not in 2.7.2;"
        " its processFetchRequest of 3.9.0, and in the jars of 3.9.1, 4.0.0 and 4.0.1",
    ),
    Hazard(
        id="acks-1",
        aliases=("KAFKA-20554", "acks-0"),
        title="A leader that fails, or moves, takes records of acks=0 and acks=1 with it.",
        loses="Records that the leader alone has; their producer got a response without an error.",
        conditions=(ClientOption("acks", ("0", "1")), Replicas(">=", 2)),
        schedule="The leader acknowledges a record before any follower has it, and dies.",
        cure="acks=all, which is the default of Kafka's Java client since 3.0.",
        cost="Each send waits for the in-sync followers.",
        evidence="story",
        command="highwater run --kafka {kafka} --acks 1 --story leader-kill",
        campaign="highwater run --inventory FILE --acks 1 --nemesis kill@leader,pause@leader"
        " --rate 3000 --for 30s",
    ),
    Hazard(
        id="unclean-election",
        aliases=("KAFKA-12670",),
        title="An unclean election makes a broker the leader that lacks acknowledged records.",
        loses="Whatever only the last members of the ISR had.",
        conditions=(Unclean(allowed=True), Replicas(">=", 2)),
        schedule=(
            "Two of three replicas leave the ISR, and the third dies; an out-of-sync replica is"
            " elected. On KRaft before 3.9 the setting has no effect (KAFKA-12670)."
        ),
        cure="unclean.leader.election.enable=false",
        cost="A partition has no leader until a member of its ISR is back.",
        evidence="story",
        command="highwater run --kafka {kafka} --unclean --story unclean",
        source="ConfigurationControlManager.uncleanLeaderElectionEnabledForTopic of 3.8.0 and"
        " 3.9.0",
    ),
    Hazard(
        id="last-replica",
        aliases=("min-isr-1", "KIP-966"),
        title="With min.insync.replicas=1 the last in-sync replica may lose its power.",
        loses=_SILENT,
        conditions=(
            Releases((((0, 11), None),)),
            Setting(_MIN_ISR, "=", "1"),
            Unclean(allowed=False),
            Replicas(">=", 2),
            _POWER,
        ),
        schedule=(
            "The followers are shut down for maintenance, so the leader is the whole ISR; its"
            " machine loses power, and what was not flushed is lost. Only that broker may lead"
            " again, and the followers truncate what it has lost."
        ),
        cure="min.insync.replicas=2 and eligible leader replicas (4.1 or later).",
        cost="While only one replica is in sync, producers with acks=all are refused.",
        evidence="story",
        command="highwater run --kafka {kafka} --min-isr 1 --story power-failure",
        source="LeaderEpochFileCache, in 0.11.0.0 and not in 0.10.2.2, which has KIP-101 instead",
    ),
    Hazard(
        id="no-elr-before-4.0",
        title="Before 4.0 min.insync.replicas=2 does not help the last in-sync replica.",
        loses=_SILENT,
        conditions=(
            Releases((((0, 11), (4, 0)),)),
            _FROM_2,
            Unclean(allowed=False),
            Replicas(">=", 2),
            _POWER,
        ),
        schedule="As in last-replica: the record was acknowledged before the followers left.",
        cure="Upgrade to 4.1 or later, and enable eligible leader replicas.",
        cost="An upgrade.",
        evidence="story",
        command="highwater run --kafka {kafka} --min-isr 2 --story power-failure",
        played_on="3.9.2",
        source="EligibleLeaderReplicasVersion, in the jar of 4.0.1 and not in that of 3.9.2; 3.7.0"
        " to 3.9.0 have eligible.leader.replicas.enable, which is internal and false",
    ),
    Hazard(
        id="upgrade-without-elr",
        title="An upgraded cluster has no eligible leader replicas until they are enabled.",
        loses=_SILENT,
        conditions=(
            On("kraft"),
            Releases((((4, 0), None),)),
            Feature(ELR_FEATURE, "<", 1),
            _FROM_2,
            Unclean(allowed=False),
            Replicas(">=", 2),
            _POWER,
        ),
        schedule="As in last-replica, though the brokers are on 4.0 or later.",
        cure=(
            f"kafka-features upgrade --feature {ELR_FEATURE}=1, or --release-version 4.1 or later"
        ),
        cost="metadata.version has to be at least 4.0; no restart.",
        evidence="story",
        command="highwater run --kafka {kafka} --protocol 3.9 --min-isr 2 --story power-failure",
        played_from=(4, 1),
        played_on="4.3.1",
        source="EligibleLeaderReplicasVersion.ELRV_1 of 4.0.1, 4.1.2 and 4.4.0: it needs"
        " metadata.version 4.0-IV1, and new clusters have it from 4.1-IV0 on",
    ),
    Hazard(
        id="last-known-leader",
        title="With eligible leader replicas a dead last leader is elected, unclean or not.",
        loses="Records of acks=0 and acks=1, though unclean elections are off.",
        conditions=(
            On("kraft"),
            Releases((((4, 0), None),)),
            Feature(ELR_FEATURE, ">=", 1),
            ClientOption("acks", ("0", "1")),
            Replicas(">=", 2),
        ),
        schedule=(
            "A partition's ISR and its eligible replicas are all down; its last leader comes back"
            " first, and leads."
        ),
        cure="acks=all",
        cost="Each send waits for the in-sync followers.",
        evidence="run",
        command="highwater run --kafka {kafka} --nemesis kill,pause --acks 1 --subscribe 2",
        played_from=(4, 1),
        source="PartitionChangeBuilder.canElectLastKnownLeader, in the jar of 4.0.1; ELRV_1",
    ),
    Hazard(
        id="single-replica",
        aliases=("RF1",),
        title="A topic with one replica loses what its only broker had not flushed, or everything.",
        loses=_SILENT,
        conditions=(Replicas("=", 1), _POWER),
        schedule=(
            "The machine of the only replica loses its power, and unflushed records are lost; or"
            " its disk is lost."
        ),
        cure="A replication factor of 3, and min.insync.replicas=2.",
        cost="Three times the disk space, and writes wait for a second broker.",
        evidence="run",
        command="highwater run --kafka {kafka} --brokers 1 --nemesis power-failure --for 20s"
        " --seed 3",
    ),
    Hazard(
        id="one-controller",
        title="With one controller, its disk has the only copy of the cluster's metadata.",
        loses=(
            "Every topic, as far as the controller knows. The records stay on the brokers' disks,"
            " where no controller asks for them; before 3.7 brokers that start again delete them."
        ),
        conditions=(On("kraft"), Controllers(1)),
        schedule=(
            "The disk of the only controller is lost; it is formatted anew, with the cluster's old"
            " id, and begins a new metadata log. A broker whose log is longer has to truncate"
            " committed metadata, and exits; restarted, it truncates, and puts its replicas aside"
            " as strays (before 3.7 it deletes them). A broker whose log is shorter goes on at"
            " its old end, and leads topics that the controller does not know."
        ),
        cure="Three controllers, each on its own machine.",
        cost="Two more processes, which need little.",
        evidence="story",
        command="highwater run --kafka {kafka} --story lost-metadata",
        source="BrokerMetadataPublisher.findStrayPartitions of 3.3.0 and 3.6.2, which deletes"
        " strays; LogManager.deleteStrayKRaftReplicas of 3.7.0, which renames them;"
        " KafkaMetadataLog.truncateTo of 3.3.0 and 3.8.0",
    ),
    Hazard(
        id="KAFKA-14139",
        aliases=("replaced-disk", "KIP-903"),
        title="A replica that comes back with an empty disk is in the ISR, and leads.",
        loses=_SILENT,
        conditions=(
            AnyOf(
                (
                    (On("zookeeper"), Releases((((2, 7), (4, 0)),))),
                    (
                        On("kraft"),
                        Releases((((3, 3), (3, 5)),), below=(METADATA_FEATURE, BROKER_EPOCHS)),
                    ),
                )
            ),
            _SINCE_2_7,
            Replicas(">=", 2),
        ),
        schedule=(
            "A follower has caught up, and its leader asks the controller to add it to the ISR."
            " Before the answer, the follower restarts with a new disk (a replaced volume, a lost"
            " PVC); the controller agrees, because the broker is alive. Then the leader fails."
        ),
        cure=(
            "KRaft from 3.5 on, with its metadata.version (KIP-903). On ZooKeeper: bring back a"
            " broker with an empty disk only under a new id, or after its partitions have moved."
        ),
        cost="An upgrade, or a migration; or a reassignment for each lost disk.",
        evidence="story",
        command="highwater run --kafka {kafka} --story replaced-disk",
        played_on="3.4.1",
        source="AlterIsrManager, in 2.7.0 and not in 2.6.3;"
        " ReplicationControlManager.ineligibleReplicasForIsr, in 3.3.0 and not in 3.2.3, which"
        " checks the broker's epoch in 3.5.0 and not in 3.4.1",
    ),
    Hazard(
        id="KAFKA-15221",
        title="A fetch from before its restart lets a replica with an empty disk into the ISR.",
        loses=_SILENT,
        conditions=(
            On("kraft"),
            Releases((((3, 5), (3, 7)),)),
            Replicas(">=", 2),
        ),
        schedule=(
            "As in KAFKA-14139, and the leader reads a last fetch that the follower sent before its"
            " restart. After the leader checks the follower's progress and before its request to"
            " the controller, the follower's first fetch gives it the new broker epoch. This window"
            " is a moment inside one broker, and was not played: the command shows the outcome on"
            " 3.4.1, which needs no such moment."
        ),
        cure="Upgrade the brokers to 3.7 or later.",
        cost="An upgrade.",
        evidence="source",
        command="highwater run --kafka 3.4.1 --story replaced-disk",
        played_on="3.4.1",
        source="Replica.updateFetchState of 3.5.2 and 3.6.2, updateFetchStateOrThrow of 3.7.0",
    ),
    Hazard(
        id="KAFKA-20732",
        aliases=("tiered-new-leader",),
        title="A new leader counts a tiered partition twice, and deletes its oldest records.",
        loses=(
            "Acknowledged records that retention.bytes covers, on every replica and in the remote"
            " tier; only a reader that knows what was sent notices."
        ),
        conditions=(
            Releases((((3, 9), (4, 4)),)),
            Setting("remote.storage.enable", "=", "true", absent="no", guards=False),
            Setting("retention.bytes", ">=", "0"),
            Replicas(">=", 2),
        ),
        schedule=(
            "A broker restarts and leads before it has looked again at the remote tier (30 s by"
            " default). It looks for expired segments before it knows which local segments are"
            " also in the remote tier: by chance, or always if remote.log.copy.disable is set. It"
            " counts these twice; if the sum exceeds retention.bytes, it deletes the oldest."
        ),
        cure=(
            "Upgrade the brokers to 4.4 or later. Until then retain by time alone"
            " (retention.bytes=-1), or add the size of the local segments to retention.bytes."
        ),
        cost="An upgrade; or more space in the remote tier.",
        evidence="story",
        command="highwater run --kafka {kafka} --story tiered-new-leader",
        played_on="4.3.1",
        played_from=(3, 9),
        source="RemoteLogManager.RLMTask of 3.8.0, which copies first; RLMExpirationTask of 3.9.0",
    ),
    Hazard(
        id="KAFKA-17754",
        aliases=("torn-transaction",),
        title="A late EndTxn commits or aborts the next transaction instead of its own.",
        loses=(
            "Readers get a record of an aborted transaction, or miss one of a committed one; the"
            " application gets an error at most afterwards."
        ),
        conditions=(
            Releases((((0, 11), None),)),
            TransactionalClients(("librdkafka", "java"), renewed=True),
        ),
        schedule=(
            "A commit is slow on its way. The client repeats it on another connection, which"
            " succeeds, and begins the next transaction; the first request arrives in that one."
        ),
        cure=(
            "Java clients of 4.0 or later with transaction.version=2 (KIP-890). With other clients:"
            " after a commit or an abort that took longer than the client's request timeout,"
            " close the producer and open another, which gets a new epoch."
        ),
        cost="A new producer after each slow end of a transaction.",
        evidence="story",
        command="highwater run --kafka {kafka} --story torn-transaction",
        source="ApiKeys.END_TXN, in 0.11.0.0 and not in 0.10.2; TransactionManager"
        " (isTransactionV2Enabled), in the jar of 4.0.1 and not in that of 3.9.2",
    ),
    Hazard(
        id="KAFKA-19446",
        aliases=("late-marker",),
        title="A late transaction marker ends the next transaction.",
        loses=(
            "An acknowledged record of a committed transaction stays on every disk, but no"
            " read_committed reader gets it; only a reader that knows what was sent notices."
        ),
        conditions=(
            Releases((((0, 11), None),)),
            TransactionalClients(("librdkafka", "java"), renewed=True, brokers=(4, 2)),
        ),
        schedule=(
            "A coordinator's marker of an aborted transaction is slow on its way to a leader. The"
            " coordinator closes the connection and sends it again; that ends the transaction,"
            " and the producer begins the next one. Then the first marker arrives, and aborts it."
        ),
        cure=(
            "Java clients of 4.0 or later with transaction.version=2, and brokers of 4.2 or later"
            " (KIP-1228). Other clients: a new producer, with a new epoch, for each transaction."
        ),
        cost="An upgrade; or a producer for each transaction.",
        evidence="replay",
        command="highwater model replay transactions-late-marker-4.4.0.json --kafka {kafka}",
        counterexample="transactions-late-marker-4.4.0.json",
        source="ProducerAppendInfo.checkProducerEpoch, in the jars of 4.1.2 and 4.2.0",
    ),
    Hazard(
        id="KAFKA-14402",
        aliases=("hanging-transaction",),
        title="A late Produce opens a transaction that never ends.",
        loses=(
            "Nothing on disk, but read_committed readers get no record that any producer writes"
            " after it. If its producer id commits again in that partition, in any epoch, the"
            " aborted record is committed."
        ),
        conditions=(
            Releases((((0, 11), (3, 6)),), without=VERIFICATION),
            TransactionalClients(("librdkafka", "java")),
        ),
        schedule=(
            "A Produce is slow on its way. Its client gives up, and the application aborts; the"
            " Produce arrives after the coordinator has written the marker. The leader appends it,"
            " and no coordinator knows the transaction that it opens."
        ),
        cure=(
            f"Upgrade the brokers to 3.6 or later, and leave {VERIFICATION} on (KIP-890): a leader"
            " asks the coordinator first. Until then find and end such transactions:"
            " kafka-transactions.sh find-hanging, and abort (KIP-664, brokers of 3.0 or later)."
        ),
        cost="An upgrade.",
        evidence="story",
        command="highwater run --kafka {kafka} --story hanging-transaction",
        played_on="3.3.2",
        source="ProducerStateManagerConfig (verification), in 3.6.0 and not in 3.5.2",
    ),
    Hazard(
        id="late-produce",
        title="A late Produce of an aborted transaction is committed with the next one.",
        loses=(
            "Readers get a record that the application aborted, and a record that it committed is"
            " missing; only a reader that knows what was sent notices."
        ),
        conditions=(Releases((((0, 11), None),)), TransactionalClients(("librdkafka",))),
        schedule=(
            "A Produce is slow on its way. Its client gives up, and the application aborts and"
            " begins the next transaction, in which the Produce arrives. The leader appends its"
            " record, since the coordinator has that transaction open. The client gives the next"
            " record the same sequence number, so the leader takes that record for a copy."
        ),
        cure=(
            "After an abort with a record that has no answer yet, close the producer and open"
            " another, with a new epoch. It needs brokers of 3.6 or later, which then refuse the"
            " late Produce."
        ),
        cost="A new producer after each such abort.",
        evidence="story",
        command="highwater run --kafka {kafka} --story late-produce",
        source="for Java, TransactionManager.maybeResolveSequences of 2.5.0, which asks for a new"
        " epoch after such a record, and Sender.runOnce (hasUnresolvedSequences) of 2.4.1, which"
        " fails",
    ),
    Hazard(
        id="reused-sequence",
        title="After an abort librdkafka may use a sequence number twice.",
        loses=(
            "An acknowledged record of a committed transaction; only a reader that knows what was"
            " sent notices."
        ),
        conditions=(Releases((((0, 11), None),)), TransactionalClients(("librdkafka",))),
        schedule=(
            "A connection breaks before a record's answer has come. While the client waits before"
            " it sends the record again, the application aborts. The client treats the record as"
            " never sent, and gives its sequence number to the next record. The leader has that"
            " number already: it acknowledges the next record, and does not append it."
        ),
        cure=(
            "Before abort_transaction wait for the outcome of every record (flush), or open a new"
            " producer after an abort."
        ),
        cost="An abort waits until every record has an answer.",
        evidence="story",
        command="highwater run --kafka {kafka} --story reused-sequence",
        source="for Java, RecordAccumulator.abortUndrainedBatches of 0.11.0.0 (isClosed) and 3.9.0"
        " (hasSequence), which keeps a record that has its number",
    ),
    Hazard(
        id="KAFKA-19012",
        aliases=("wrong-topic",),
        title="A Java producer sends a record of one topic to another.",
        loses=(
            "Readers of a topic get a record that was not sent to it; the topic's own record is"
            " missing, and its producer reported a timeout. The checksum is right: it does not"
            " cover the topic."
        ),
        conditions=(
            JavaProducers((((2, 1), (3, 9, 2)), ((4, 0), (4, 0, 2)), ((4, 1), (4, 1, 2)))),
        ),
        schedule=(
            "A broker reads so slowly that a request waits in the producer's socket, and its"
            " batches expire there (delivery.timeout.ms). The producer reuses their buffers for"
            " new records; then the broker reads on, and the request has the new records' bytes."
        ),
        cure="Java clients of 3.9.2, 4.0.2, 4.1.2, or 4.2 and later.",
        cost="An upgrade of the clients, not of brokers.",
        evidence="story",
        command="highwater run --kafka {kafka} --story wrong-topic --client java:3.9.0",
        source="Sender (getExpiredInflightBatches), in 2.1.0 and not in 2.0.1;"
        " ProducerBatch.setInflight, in the jars of 3.9.2, 4.0.2 and 4.1.2, and not in 3.9.1,"
        " 4.0.1 and 4.1.1",
    ),
    Hazard(
        id="KAFKA-20539",
        aliases=("added-partition", "KIP-1327", "KAFKA-20035"),
        title="A group that begins at the latest offset skips a new partition's first records.",
        loses=(
            "Nothing on disk. A group that existed before acknowledged records were sent never"
            " gets them; no client gets an error, and the group has no lag."
        ),
        conditions=(ConsumerGroups(("latest",)),),
        schedule=(
            "Partitions are added to a topic. A producer finds them and writes to them; a consumer"
            " looks for new partitions every metadata.max.age.ms (librdkafka:"
            " topic.metadata.refresh.interval.ms), 5 minutes by default. Its group has committed no"
            " offset there, and auto.offset.reset=latest begins after everything written so far."
        ),
        cure=(
            "auto.offset.reset=earliest. Or write to new partitions only when every group has"
            " found them, or has committed an offset there."
        ),
        cost=(
            "A group that has lost its offsets, or whose offsets have expired, reads the topic from"
            " its beginning."
        ),
        evidence="story",
        command="highwater run --kafka {kafka} --story added-partition",
    ),
    Hazard(
        id="KAFKA-20742",
        aliases=("added-partition-share",),
        title="A share group skips the first records in an added partition.",
        loses=(
            "Nothing on disk. A share group that reads the topic never gets acknowledged records;"
            " no client gets an error."
        ),
        conditions=(On("kraft"), Releases((((4, 1), (4, 4)),)), ShareGroups()),
        schedule=(
            "Partitions are added to a topic, and written to. The group's coordinator initialises"
            " them some seconds later, at share.auto.offset.reset, which is latest by default: the"
            " group begins after everything written so far."
        ),
        cure=(
            "Upgrade the brokers to 4.4 or later. Until then set share.auto.offset.reset=earliest"
            " for the group."
        ),
        cost="An upgrade; or a new group gets the whole topic.",
        evidence="story",
        command="highwater run --kafka {kafka} --story added-partition-share",
        played_from=(4, 2),
        played_on="4.3.1",
        source="GroupMetadataManager.buildInitializeShareGroupStateRequest, in the jars of 4.1.2"
        " (offset -1 always) and 4.4.0; ShareVersion, in 4.1.2 and not in 4.0.1",
    ),
    Hazard(
        id="own-positions",
        aliases=("offsets-topic",),
        title="Kafka's topic of committed offsets is less safe than what groups read.",
        loses=(
            "Offsets that a group had committed: it reads records again, or, with"
            " auto.offset.reset=latest, skips what it has not read."
        ),
        topic=POSITIONS,
        conditions=(_WEAK,),
        schedule=f"As any topic, {POSITIONS} loses records {_WEAKLY}.",
        cure=_OWN_CURE.format(topic=POSITIONS),
        cost="A reassignment of its partitions; no commit while only one replica is in sync.",
        evidence="run",
        command=f"{_ALONE} --subscribe 2",
    ),
    Hazard(
        id="own-transactions",
        aliases=("transactions-topic",),
        title="Kafka's topic of transactions is less safe than what transactions write.",
        loses=(
            "What a coordinator knew about transactions: a committed transaction hangs or is"
            " aborted, and read_committed readers wait at it, or never get its records."
        ),
        topic=TRANSACTIONS,
        conditions=(Releases((((0, 11), None),)), _WEAK),
        schedule=f"As any topic, {TRANSACTIONS} loses records {_WEAKLY}.",
        cure=_OWN_CURE.format(topic=TRANSACTIONS),
        cost="A reassignment of its partitions; no transaction while one replica is in sync.",
        evidence="source",
        command=f"{_ALONE} --transactions",
        source="Topic (__transaction_state), in 0.11.0.0 and not in 0.10.2.2",
    ),
    Hazard(
        id="own-share-state",
        aliases=("share-state-topic",),
        title="Kafka's topic of share groups is less safe than what they read.",
        loses=(
            "Acknowledgements of share groups: another member gets again what a member has"
            " accepted, or no member gets what none has accepted."
        ),
        topic=SHARE_GROUPS,
        conditions=(On("kraft"), Releases((((4, 0), None),)), _WEAK),
        schedule=f"As any topic, {SHARE_GROUPS} loses records {_WEAKLY}.",
        cure=_OWN_CURE.format(topic=SHARE_GROUPS),
        cost="A reassignment of its partitions; no acknowledgement while one replica is in sync.",
        evidence="source",
        command=f"{_ALONE} --share 2",
        source="BrokerServer of 3.9.0, without a ShareCoordinatorService",
    ),
    Hazard(
        id="own-remote-tier",
        aliases=("KAFKA-19858", "KIP-1235"),
        title="Kafka's topic about the remote tier is less safe than the remote segments.",
        loses=(
            "What Kafka knew about segments in the remote tier: records that are only there cannot"
            " be read any more, and are never deleted."
        ),
        topic=REMOTE_TIER,
        conditions=(Releases((((3, 6), None),)), _WEAK),
        schedule=(
            f"As any topic, {REMOTE_TIER} loses records {_WEAKLY}. Before 4.3"
            " Kafka made it with min.insync.replicas=1 (KIP-1235)."
        ),
        cure=_OWN_CURE.format(topic=REMOTE_TIER),
        cost="A reassignment of its partitions; nothing is copied while one replica is in sync.",
        evidence="source",
        command=f"{_ALONE} --tiered",
        played_from=(3, 6),
        source="UnifiedLog.localRetentionMs, in 3.6.0 and not in 3.5.2",
    ),
    Hazard(
        id="power-of-all",
        title="Kafka acknowledges before it flushes: a power failure of all brokers loses records.",
        loses=_SILENT,
        conditions=(ClientOption("power", ("shared",)),),
        schedule="Every broker that has a record loses its power before the record is flushed.",
        cure="Spread the replicas over independent power supplies (broker.rack).",
        cost="Longer distances between replicas.",
        evidence="run",
        command="highwater run --kafka {kafka} --min-isr 2 --nemesis power-failure@all --for 40s"
        " --seed 3",
    ),
)

HAZARDS: Final[tuple[Hazard, ...]] = _ENTRIES
"""Every hazard, in the order of the page."""

BY_ID: Final[Mapping[str, Hazard]] = MappingProxyType(
    {name: hazard for hazard in HAZARDS for name in (hazard.id, *hazard.aliases)}
)
"""Every hazard by its id and its aliases."""


def find_hazard(name: str) -> Hazard:
    """Return the hazard with the given id or alias.

    Raises:
        UsageError: no hazard has this id or alias; the hint names the nearest id or alias.
    """
    try:
        return BY_ID[name]
    except KeyError:
        raise UsageError(f"no hazard is called {name!r}", hint=nearest(name, BY_ID)) from None
