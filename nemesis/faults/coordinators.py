"""Coordinators of transactions and of groups: brokers that lead Kafka's internal topics.

In a cluster that Highwater starts, each of these topics has one partition, so the cluster has one
coordinator of each kind (``clusters.nodes.config_files``). If the run uses the topic, every broker
has a replica of the partition (``harness.runs.plan.Plan.broker_settings``).
"""

from dataclasses import dataclass
from typing import Final

from highwater.harness.runs.store import COORDINATOR_TOPICS
from highwater.nemesis.faults.registry import Needs


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorKind:
    """A kind of coordinator: for transactions or for groups.

    Attributes:
        target: the coordinator's name as a target in ``--nemesis``.
        serves: ``transactions`` or ``groups``.
        topic: the internal topic; the leader of its partition 0 is the coordinator.
        needs: the option with which a run uses the coordinator.
    """

    target: str
    serves: str
    topic: str
    needs: Needs


_TRANSACTION_STATE, _CONSUMER_OFFSETS, _ = COORDINATOR_TOPICS

TRANSACTIONS: Final = CoordinatorKind(
    target="txn-coordinator",
    serves="transactions",
    topic=_TRANSACTION_STATE,
    needs="--transactions",
)
GROUPS: Final = CoordinatorKind(
    target="group-coordinator",
    serves="groups",
    topic=_CONSUMER_OFFSETS,
    needs="--subscribe",
)
COORDINATORS: Final = {kind.target: kind for kind in (TRANSACTIONS, GROUPS)}
"""The kinds of coordinators by their target name in ``--nemesis``."""
