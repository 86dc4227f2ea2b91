"""The coordinators of transactions and of groups: brokers that lead a topic of Kafka's own.

Clusters that Highwater starts give these topics one partition, so that there is one coordinator of
each kind (``clusters.nodes.config_files``), and a replica on every broker if they are in use
(``harness.runs.plan.Plan.broker_settings``).
"""

from dataclasses import dataclass
from typing import Final

from highwater.harness.runs.store import COORDINATOR_TOPICS
from highwater.nemesis.faults.registry import Needs


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorKind:
    """One kind of coordinator.

    Attributes:
        target: its word in ``--nemesis``.
        serves: what it coordinates, in words.
        topic: the topic that it leads; of its partition 0.
        needs: the option without which a run does not use it.
    """

    target: str
    serves: str
    topic: str
    needs: Needs


_TRANSACTION_STATE, _CONSUMER_OFFSETS = COORDINATOR_TOPICS

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
"""The kinds of coordinators by their word in ``--nemesis``."""
