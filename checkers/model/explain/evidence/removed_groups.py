"""Explains a coordinator that lacks an offset of its log: it removed the group.

4.0.0 removes a group without members while its first offsets are in an open transaction
(KAFKA-19163). The log then has the offsets, and no coordinator knows the group.
"""

from typing import Final

from highwater.checkers.coordinators.offsets import REMOVES_GROUP
from highwater.checkers.model.explain.evidence.evidence_links import AnomalyCase, Links
from highwater.checkers.model.explain.evidence.licences import (
    Explainer,
    explains,
    hazard_of_release,
)
from highwater.checkers.model.report_types import ExplanationLink

_HAZARD: Final = "KAFKA-19163"


@explains(
    "removed-group",
    hazard_of_release(_HAZARD),
    f"The group was removed while a transaction had its first offsets ({_HAZARD}).",
)
def _removed(case: AnomalyCase) -> Links:
    """Return the records of the log, if one removes the group while a transaction is open."""
    contradiction, *records = case.anomaly["copies"]
    if all(record["note"] != REMOVES_GROUP for record in records):
        return ()
    return tuple(
        ExplanationLink(
            rule=_HAZARD,
            says=f"At offset {record['offset']} of __consumer_offsets {record['note']}.",
            event=contradiction["note"],
        )
        for record in records
    )


removed_group: Final = Explainer(
    (_removed,), "No record of the log removes the group while a transaction is open."
)
