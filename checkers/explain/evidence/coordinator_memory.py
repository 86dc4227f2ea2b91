"""Explains a coordinator whose memory and log differ, or whose log contradicts itself.

The log shows each cause. The group was removed while its first offsets were in an open transaction
(KAFKA-19163). A transaction ended late, and removed the offsets of the producer's next transaction
(KAFKA-17507). The group became classic before a member of KIP-848 joined (KAFKA-20845). A late
write set back the start offset of a share group, or the late message that initializes its state
removed it. One cause is in the log of a broker: it could not load the coordinator's partition.
"""

from typing import Final

from highwater.checkers.coordinators.groups import DOWNGRADED
from highwater.checkers.coordinators.offsets import ENDS, REMOVES_GROUP
from highwater.checkers.coordinators.shares import AFTER_RESET, RESET, STEPS_BACK
from highwater.checkers.explain.evidence.evidence_links import (
    AnomalyCase,
    Links,
    Row,
    event_link,
)
from highwater.checkers.explain.evidence.licences import (
    Explainer,
    explains,
    hazard_of_release,
    of_plan,
)
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.releases.cluster_facts import GROUPS_CODEC, POSITIONS, SHARE_GROUPS

_REMOVED_GROUP: Final = "KAFKA-19163"
_LATE_END: Final = "KAFKA-17507"
_DOWNGRADE: Final = "KAFKA-20845"
_STEP_BACK: Final = "share-step-back"
_LATE_INITIALIZE: Final = "late-initialize"
_UNLOADED: Final = "unloaded-coordinator"


@explains(
    "removed-group",
    hazard_of_release(_REMOVED_GROUP),
    f"The group was removed while a transaction had its first offsets ({_REMOVED_GROUP}).",
)
def _removed(case: AnomalyCase) -> Links:
    """Return links for the log's records, if one removes the group while a transaction is open."""
    removed = any(record["note"] == REMOVES_GROUP for record in _records(case))
    return _links(case, _REMOVED_GROUP) if removed else ()


@explains(
    "late-end",
    hazard_of_release(_LATE_END),
    "The late end of a transaction removed the next one's offsets from memory.",
)
def _late_end(case: AnomalyCase) -> Links:
    """Return links for the log's records, if the last one's producer ended two transactions."""
    ends = [record["value"] for record in _records(case) if record["note"].startswith(ENDS)]
    return _links(case, _LATE_END) if ends and ends.count(ends[-1]) > 1 else ()


@explains(
    "forgotten-downgrade",
    hazard_of_release(_DOWNGRADE)
    & of_plan(
        GROUPS_CODEC,
        "The coordinator's records are not compressed.",
        lambda run: run.plan.broker_config.get(GROUPS_CODEC, "0") != "0",
    ),
    f"The coordinator forgot that it had made the group classic ({_DOWNGRADE}).",
)
def _forgotten_downgrade(case: AnomalyCase) -> Links:
    """Return links for the log's records, if one of them makes a KIP-848 group classic."""
    downgraded = any(record["note"] == DOWNGRADED for record in _records(case))
    return _links(case, _DOWNGRADE) if downgraded else ()


@explains(
    "late-share-write",
    hazard_of_release(_STEP_BACK),
    "The share coordinator took the older start offset of a late write.",
)
def _late_share_write(case: AnomalyCase) -> Links:
    """Return links for the log's records, if one of them sets back the group's start offset."""
    back = any(record["note"].startswith(STEPS_BACK) for record in _records(case))
    return _links(case, _STEP_BACK, SHARE_GROUPS) if back else ()


@explains(
    _LATE_INITIALIZE,
    hazard_of_release(_LATE_INITIALIZE),
    "The share coordinator initialized a state that it already had.",
)
def _late_initialize(case: AnomalyCase) -> Links:
    """Return links for the log's records, if one of them is, or follows, a lost start offset."""
    notes = [record["note"] for record in _records(case)]
    reset = any(note.startswith(RESET) or AFTER_RESET in note for note in notes)
    return _links(case, _LATE_INITIALIZE, SHARE_GROUPS) if reset else ()


@explains(
    "unloaded",
    hazard_of_release(_UNLOADED),
    "The coordinator answered although it could not load the groups' offsets.",
)
def _unloaded(case: AnomalyCase) -> Links:
    """Return a link for the last log line about a load of the groups' offsets that failed."""
    failed = [
        line
        for trace in case.observed.traces.values()
        for broker in trace.lines
        for line in trace.of_kind(broker, "unloaded")
    ]
    if not failed or not _records(case):
        return ()
    last = max(failed, key=lambda line: line.time_ns)
    says = f"Broker {last.broker} became coordinator, and could not load {POSITIONS}."
    return (event_link(_UNLOADED, says, last, last.broker),)


def _records(case: AnomalyCase) -> list[Row]:
    """Return the records of the coordinator's log that the anomaly lists."""
    records: list[Row] = case.anomaly["copies"][1:]
    return records


def _links(case: AnomalyCase, rule: str, topic: str = POSITIONS) -> Links:
    return tuple(
        ExplanationLink(
            rule=rule,
            says=f"At offset {record['offset']} of {topic} {record['note']}.",
            event=case.anomaly["copies"][0]["note"],
        )
        for record in _records(case)
    )


contradiction: Final = Explainer(
    (_removed, _late_end, _forgotten_downgrade, _late_initialize, _late_share_write, _unloaded),
    "The log shows no removed group, no earlier transaction of the producer, no group that became"
    " classic, and no start offset that steps back. No broker logged that it could not load it.",
)
