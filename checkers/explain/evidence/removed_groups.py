"""Explains a coordinator that lacks an offset of its log: it removed the group or the offset.

4.0.0 removes a group without members while an open transaction has its first offsets (KAFKA-19163).
Up to 3.9.0 a coordinator may end a producer's transaction after the producer has added offsets to
its next transaction. Then the coordinator removes these offsets (KAFKA-17507). In both cases the
log still has the offsets.
"""

from typing import Final

from highwater.checkers.coordinators.offsets import ENDS, REMOVES_GROUP
from highwater.checkers.explain.evidence.evidence_links import AnomalyCase, Links
from highwater.checkers.explain.evidence.licences import (
    Explainer,
    explains,
    hazard_of_release,
)
from highwater.checkers.model.report_types import ExplanationLink

_REMOVED_GROUP: Final = "KAFKA-19163"
_LATE_END: Final = "KAFKA-17507"


@explains(
    "removed-group",
    hazard_of_release(_REMOVED_GROUP),
    f"The group was removed while a transaction had its first offsets ({_REMOVED_GROUP}).",
)
def _removed(case: AnomalyCase) -> Links:
    """Return the offsets topic's records, if one removes the group during an open transaction."""
    removed = any(record["note"] == REMOVES_GROUP for record in case.anomaly["copies"])
    return _links(case, _REMOVED_GROUP) if removed else ()


@explains(
    "late-end",
    hazard_of_release(_LATE_END),
    "The late end of a transaction removed the next transaction's offsets from memory.",
)
def _late_end(case: AnomalyCase) -> Links:
    """Return the offsets topic's records, if the last transaction's producer had an earlier one."""
    ends = [record["value"] for record in case.anomaly["copies"] if record["note"].startswith(ENDS)]
    return _links(case, _LATE_END) if ends and ends.count(ends[-1]) > 1 else ()


def _links(case: AnomalyCase, rule: str) -> Links:
    contradiction, *records = case.anomaly["copies"]
    return tuple(
        ExplanationLink(
            rule=rule,
            says=f"At offset {record['offset']} of __consumer_offsets {record['note']}.",
            event=contradiction["note"],
        )
        for record in records
    )


removed_group: Final = Explainer(
    (_removed, _late_end),
    "The log does not remove the group, and the producer had no earlier transaction.",
)
