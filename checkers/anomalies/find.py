"""Find every anomaly in clients' histories, for all histories in one pass.

First, sums over all rows show which anomalies are possible. Then only the rows that may show these
anomalies are read again. So a history without anomalies is read once.
"""

from collections.abc import Sequence
from typing import Final

from highwater.checkers.anomalies.record_checks import CONTENTS, contents
from highwater.checkers.anomalies.shared_offsets import INCONSISTENT, shared_offsets
from highwater.checkers.anomalies.step_checks import KINDS as STEPS
from highwater.checkers.anomalies.step_checks import passed, step_findings
from highwater.checkers.anomalies.vanished import vanished
from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.core.anomaly_kinds import VANISHED
from highwater.checkers.history.findings import FINDING, FINDING_COLUMNS, rows_of_findings
from highwater.checkers.history.rows import REFERENCE
from highwater.checkers.history.steps import wrong_steps
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows

KINDS: Final = frozenset({*CONTENTS, INCONSISTENT, *STEPS, VANISHED})
"""All kinds of anomaly in clients' histories, except cycles of operations."""


def find(view: ClientHistory, kinds: frozenset[str] = KINDS) -> Rows:
    """Return the anomalies of these kinds, as rows of ``checkers.core.anomaly.SCHEMA``."""
    return tell(view, findings(view, kinds))


def findings(view: ClientHistory, kinds: frozenset[str]) -> list[Rows]:
    """Return the findings of these kinds, as rows of ``checkers.history.findings.FINDING``."""
    rows: list[Rows | None] = [*contents(view, kinds)]
    if INCONSISTENT in kinds:
        rows.append(shared_offsets(view))
    step_kinds = kinds.intersection(STEPS)
    if step_kinds or VANISHED in kinds:
        steps = wrong_steps(view)
        rows.append(step_findings(view, steps, step_kinds))
        if VANISHED in kinds:
            rows.append(vanished(view, passed(view, steps)))
    return [row for row in rows if row is not None]


def tell(view: ClientHistory, parts: Sequence[Rows]) -> Rows:
    """Add the texts of the history to findings; return rows of ``checkers.core.anomaly.SCHEMA``."""
    none = view.engine.table(FINDING.empty_table())
    all_of_them = none.union(*parts).persist()
    if not len(all_of_them):
        return view.engine.table(SCHEMA.empty_table())
    rows = all_of_them.renamed(FINDING_COLUMNS).join(view.words, REFERENCE)
    return rows.collect_if_few().by(["finding"], rows_of_findings, SCHEMA)
