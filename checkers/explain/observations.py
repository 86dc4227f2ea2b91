"""The observations that explanations need, and their sources on each kind of cluster.

An anomaly whose explanation needs a missing observation is "unknown", never a bug of Kafka.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Observation(StrEnum):
    """An observation of a run, besides its clients' history and its faults."""

    LEADERSHIPS = "leaders and in-sync replicas"
    REPLICAS = "the replicas' ends and HWs"
    BROKER_LOGS = "the brokers' own logs"
    DISKS = "the replicas' files"
    WIRE = "the requests in flight"
    MACHINES = "records that their machines lost when they stopped"


LEADERS: Final = frozenset({Observation.LEADERSHIPS})
STARTS: Final = LEADERS | {Observation.REPLICAS, Observation.BROKER_LOGS}
"""The observations that show a leader's first offset: the broker's log line, the epoch's first
record, or the observed LEO."""

LOGS: Final = frozenset({Observation.BROKER_LOGS})
FILES: Final = frozenset({Observation.DISKS})
MESSAGES: Final = frozenset({Observation.WIRE})
UNFLUSHED: Final = frozenset({Observation.MACHINES})


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationSource:
    """The source of an observation on each kind of cluster; empty if there is none.

    Attributes:
        shows: the events that the observation shows.
        started: the source on clusters that Highwater starts, of processes or of containers.
        inventory: the source on external brokers, for which the user's inventory has commands.
        managed: the source on a service without access to its machines.
    """

    shows: str
    started: str
    inventory: str
    managed: str


_METADATA: Final = "requests to brokers"
_LOGS: Final = "the brokers' log files"

SOURCES: Final[Mapping[Observation, ObservationSource]] = {
    Observation.LEADERSHIPS: ObservationSource(
        shows="who leads, in which leader epoch, with which ISR",
        started=f"{_METADATA}, or ZooKeeper",
        inventory=_METADATA,
        managed=_METADATA,
    ),
    Observation.REPLICAS: ObservationSource(
        shows="LEO and HW of each replica over time",
        started=_METADATA,
        inventory=_METADATA,
        managed=_METADATA,
    ),
    Observation.BROKER_LOGS: ObservationSource(
        shows="truncations, where each leader epoch begins, changes of the ISR between two"
        " observations, when a broker begins to follow which leader",
        started=_LOGS,
        inventory="",
        managed="",
    ),
    Observation.DISKS: ObservationSource(
        shows="each replica's records at the end, and where each leader epoch begins (since 0.11"
        " readers show this, too)",
        started="the log directories",
        inventory="the command `copy`",
        managed="",
    ),
    Observation.WIRE: ObservationSource(
        shows="requests and answers that came late",
        started="`--wire-clients`",
        inventory="",
        managed="",
    ),
    Observation.MACHINES: ObservationSource(
        shows="whether a power failure removed a broker's unflushed records",
        started="Highwater's own faults",
        inventory="",
        managed="",
    ),
}
"""Every kind of observation, with its source on each kind of cluster."""


def listed(missing: Iterable[Observation]) -> str:
    """Return the names of observations as a list, in the order of ``Observation``."""
    *before, last = [str(name) for name in Observation if name in {*missing}]
    return f"{', '.join(before)} and {last}" if before else last
