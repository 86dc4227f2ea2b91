"""The coordinators of transactions and of groups: brokers that lead a topic of Kafka's own.

Clusters that Highwater starts give each of these topics one partition, so that there is one
coordinator of each kind (``clusters.nodes.config_files``). If the run uses the topic, every broker
has a replica (``harness.runs.plan.Plan.broker_settings``).
"""

from dataclasses import dataclass
from typing import Final

from highwater.harness.runs.store import COORDINATOR_TOPICS
from highwater.nemesis.faults.registry import Needs


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorKind:
    """One kind of coordinator.

    Attributes:
        target: the coordinator's name as a target in ``--nemesis``.
        serves: the objects that the coordinator coordinates, as text.
        topic: the topic whose partition 0 the coordinator leads.
        needs: the option without which a run does not use the coordinator.
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
