"""The rules of transactions, by the release of the brokers and by the client.

Each switch cites the KIP or issue that introduced the rule, and the class in Kafka's source that
has the rule. A client is a library together with a version of transactions. Java's client from 4.0
on uses version 2 if the brokers have it (KIP-890). ``librdkafka`` has only version 1
(confluentinc/librdkafka#5423).
"""

from dataclasses import dataclass, fields
from typing import Final, Literal

from highwater.checkers.model.protocol.rules_by_release import numbers, switch_field
from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest, nearest_release
from highwater.harness.releases.catalogue import CATALOGUE
from highwater.harness.releases.client_choice import LIBRDKAFKA, ClientChoice

TransactionClient = Literal["librdkafka", "java", "java-v1"]

CLIENTS: Final[tuple[TransactionClient, ...]] = ("librdkafka", "java", "java-v1")
"""The clients of the model; ``java-v1`` is Java's client with ``transaction.version`` below 2."""

FIRST: Final = (0, 11)
"""The first release with transactions (KIP-98)."""

_SECOND: Final = (4, 0)
"""The first release with version 2 of transactions, for brokers and Java's clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRules:
    """The rules of one release together with one client."""

    duplicates_cached: bool = switch_field(
        "A leader knows a producer's last five batches, and acknowledges a copy of any of them. "
        "Without this rule, it knows only the last batch.",
        "KAFKA-5494; ProducerStateEntry.findDuplicateBatch (1.0)",
    )
    unknown_accepted: bool = switch_field(
        "A leader without a state of a producer accepts any sequence number. Without this rule, "
        "it accepts only 0.",
        "KIP-360; ProducerAppendInfo.checkSequence (2.5)",
    )
    verification: bool = switch_field(
        "Before a leader appends the first record of a transaction, it asks the coordinator whether"
        " the transaction has the partition.",
        "KIP-890, KAFKA-14402; UnifiedLog.analyzeAndValidateProducerState,"
        " TransactionCoordinator.handleVerifyPartitionsInTransaction (3.6)",
    )
    lowest_sequence: bool = switch_field(
        "After a record that the coordinator did not confirm, a leader accepts no higher sequence"
        " number until it appends a record or a marker.",
        "KAFKA-14920; VerificationStateEntry, ProducerAppendInfo.checkSequence (3.6)",
    )
    copy_is_not_lowest: bool = switch_field(
        "A copy of a record that the leader has does not count as an unconfirmed record. No "
        "release has this rule.",
        "docs/findings/late-copy.md; UnifiedLog.maybeStartTransactionVerification",
    )
    open_in_epoch: bool = switch_field(
        "A leader treats an open transaction of an older epoch as another transaction, so it "
        "also asks about the first record of the new epoch.",
        "KIP-890; UnifiedLog.hasOngoingTransaction (with an epoch in 4.0.1, without it in 3.9.2)",
    )
    stale_epoch_first: bool = switch_field(
        "A leader refuses a producer epoch below the known epoch without asking the coordinator, "
        "and stores nothing.",
        "KAFKA-18042; UnifiedLog.maybeStartTransactionVerification (in 4.1.2, not in 4.0.1; 4.0.2"
        " was not read)",
    )
    bumps_epoch: bool = switch_field(
        "The producer epoch rises at each end of a transaction, and the next transaction begins"
        " with sequence number 0.",
        "KIP-890, transaction.version 2; TransactionMetadata.prepareAbortOrCommit (4.0)",
    )
    adds_by_produce: bool = switch_field(
        "The leader adds the partition to the transaction when the first record arrives. Without "
        "this rule, the client adds it before, by AddPartitionsToTxn.",
        "KIP-890, transaction.version 2; AddPartitionsToTxnManager (4.0)",
    )
    first_is_zero: bool = switch_field(
        "A leader that has no batch of a producer accepts only sequence number 0.",
        "KAFKA-18202; ProducerAppendInfo.checkSequence (in 4.1.2, not in 4.0.1)",
    )
    marker_above: bool = switch_field(
        "A marker whose epoch the leader already knows does not end an open transaction.",
        "KIP-1228, KAFKA-19446; ProducerAppendInfo.checkProducerEpoch (in 4.2.1, not in 4.1.2)",
    )
    answers_first: bool = switch_field(
        "The coordinator responds to EndTxn after it has written its decision, before the "
        "markers are written.",
        "KIP-98; TransactionCoordinator.endTransaction",
    )
    purges_unanswered: bool = switch_field(
        "An abort drops a record that waits to be sent again, and the client gives its sequence"
        " number to the next record. Without this rule, the abort waits for the response.",
        "docs/findings/reused-sequence.md; rd_kafka_toppar_purge_queues. Java waits:"
        " RecordAccumulator.abortUndrainedBatches",
    )


TRANSACTION_SWITCHES: Final = tuple(switch.name for switch in fields(TransactionRules))


def transaction_rules_of(kafka: str, client: str, *, protocol: str = "") -> TransactionRules:
    """Return the rules of brokers of a catalogued release with a client.

    Args:
        kafka: such as ``4.4.0``.
        client: one of ``CLIENTS``.
        protocol: the newest ``metadata.version``, if it is not the release's own. It also limits
            the level of the feature ``transaction.version`` (KIP-584).

    Raises:
        UsageError: the model does not know the release or the client, or the release has no
            transactions.
    """
    if kafka not in CATALOGUE:
        raise UsageError(
            f"the model does not know Kafka release {kafka!r}",
            hint=nearest_release(kafka, CATALOGUE),
        )
    if client not in CLIENTS:
        raise UsageError(
            f"the model does not know client {client!r}", hint=nearest(client, CLIENTS)
        )
    version = CATALOGUE[kafka].number
    if version < FIRST:
        raise UsageError(
            f"Kafka {kafka} has no transactions", hint="Choose 0.11 or a later release."
        )
    spoken = min(version, numbers(protocol)) if protocol else version
    second = client == "java" and spoken >= _SECOND
    return TransactionRules(
        duplicates_cached=version >= (1, 0),
        unknown_accepted=version >= (2, 5),
        verification=version >= (3, 6),
        lowest_sequence=version >= (3, 6),
        copy_is_not_lowest=False,
        open_in_epoch=version >= (4, 0),
        stale_epoch_first=version >= (4, 1),
        bumps_epoch=second,
        adds_by_produce=second,
        first_is_zero=second and version >= (4, 1),
        marker_above=second and version >= (4, 2),
        answers_first=True,
        purges_unanswered=client == "librdkafka",
    )


def transaction_client(choice: ClientChoice) -> TransactionClient:
    """Return the model's client for a library and a release.

    Raises:
        UsageError: the model does not know the library.
    """
    if choice.release is not None:
        return "java" if choice.release.number >= _SECOND else "java-v1"
    if choice.library != LIBRDKAFKA:
        raise UsageError(
            f"the model of transactions does not know {choice.title}",
            hint="Use --client librdkafka, java, or java:3.9.2 for version 1 of transactions.",
        )
    return "librdkafka"


TRANSACTION_RELEASES: Final = tuple(
    name for name, release in CATALOGUE.items() if release.number >= FIRST
)
"""Every catalogued release with transactions."""
