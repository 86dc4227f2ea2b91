"""The observations on which the model's answer rests, and the kinds of cluster that give them.

Where an observation is missing, what rests on it is not known. It is never held against Kafka.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Observation(StrEnum):
    """An observation of a run, beside the history of its clients and its faults."""

    LEADERSHIPS = "leaders and in-sync replicas"
    REPLICAS = "the replicas' ends and HWs"
    BROKER_LOGS = "the brokers' own logs"
    DISKS = "the replicas' files"
    WIRE = "the requests under way"
    MACHINES = "what their machines lost as they stopped"


LEADERS: Final = frozenset({Observation.LEADERSHIPS})
STARTS: Final = LEADERS | {Observation.REPLICAS, Observation.BROKER_LOGS}
"""Where each leader began: by its own log, by its epoch's first record, or by its observed LEO."""

LOGS: Final = frozenset({Observation.BROKER_LOGS})
FILES: Final = frozenset({Observation.DISKS})
MESSAGES: Final = frozenset({Observation.WIRE})
UNFLUSHED: Final = frozenset({Observation.MACHINES})


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationSource:
    """The source of an observation on each kind of cluster; empty: it is not observed there.

    Attributes:
        shows: what it shows.
        local: processes that Highwater starts.
        containers: containers that it starts.
        inventory: brokers that others run, with commands for their machines.
        managed: a service without access to its machines.
    """

    shows: str
    local: str
    containers: str
    inventory: str
    managed: str


_METADATA: Final = "requests to brokers, ten times a second"
_LOGS: Final = "the brokers' log files"

SOURCES: Final[Mapping[Observation, ObservationSource]] = {
    Observation.LEADERSHIPS: ObservationSource(
        shows="who leads, in which leader epoch, with which ISR",
        local=f"{_METADATA}, or ZooKeeper",
        containers=f"{_METADATA}, or ZooKeeper",
        inventory=_METADATA,
        managed=_METADATA,
    ),
    Observation.REPLICAS: ObservationSource(
        shows="LEO and HW of each replica over time",
        local=_METADATA,
        containers=_METADATA,
        inventory=_METADATA,
        managed=_METADATA,
    ),
    Observation.BROKER_LOGS: ObservationSource(
        shows="truncations, the offset at which each leader epoch begins, changes of the ISR"
        " between two looks, who follows whom from when on",
        local=_LOGS,
        containers=_LOGS,
        inventory="",
        managed="",
    ),
    Observation.DISKS: ObservationSource(
        shows="the records of each replica at the end, and where each leader epoch begins; from"
        " 0.11 on readers return that, too, so that nothing rests on OffsetForLeaderEpoch",
        local="the log directories",
        containers="the log directories",
        inventory="the command `copy`",
        managed="",
    ),
    Observation.WIRE: ObservationSource(
        shows="requests and answers that came late",
        local="`--wire-clients`",
        containers="`--wire-clients`",
        inventory="",
        managed="",
    ),
    Observation.MACHINES: ObservationSource(
        shows="whether a broker came back without records that it had not flushed: a power failure"
        " takes them, the end of a process does not",
        local="Highwater's own faults",
        containers="Highwater's own faults",
        inventory="",
        managed="",
    ),
}
"""Every observation, with its sources."""


def listed(missing: Iterable[Observation]) -> str:
    """Return observations as a list in words, in their order."""
    *before, last = [str(name) for name in Observation if name in {*missing}]
    return f"{', '.join(before)} and {last}" if before else last
