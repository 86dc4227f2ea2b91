"""Every anomaly of the clients' view, of all histories in one pass.

First it is asked, by a few sums over all rows, what may be wrong at all; then only those rows are
looked at again. A history in which nothing is wrong costs the sums alone.
"""

from collections.abc import Sequence
from typing import Final

from checkers.anomaly import SCHEMA
from checkers.clients.contents import CONTENTS, contents
from checkers.clients.findings import FINDING, FOUND, told
from checkers.clients.gaps import KINDS as STEPS
from checkers.clients.gaps import passed, step_findings
from checkers.clients.rows import REFERENCE
from checkers.clients.shared_offsets import INCONSISTENT, shared_offsets
from checkers.clients.steps import wrong_steps
from checkers.clients.vanished import VANISHED, vanished
from checkers.clients.view import View
from checkers.engine import Rows

KINDS: Final = frozenset({*CONTENTS, INCONSISTENT, *STEPS, VANISHED})
"""All kinds but the cycles."""

OF_RUNS: Final = KINDS - {"lost-write", "unseen", "duplicate", VANISHED}
"""Those that are asked of our own runs: what became of their records ``checkers.fates`` knows."""


def find(view: View, kinds: frozenset[str] = KINDS) -> Rows:
    """The anomalies of these kinds, in ``checkers.anomaly.SCHEMA``."""
    return tell(view, findings(view, kinds))


def findings(view: View, kinds: frozenset[str]) -> list[Rows]:
    """The findings of these kinds, in ``checkers.clients.findings.FINDING``."""
    found: list[Rows | None] = [*contents(view, kinds)]
    if INCONSISTENT in kinds:
        found.append(shared_offsets(view))
    asked = kinds.intersection(STEPS)
    if asked or VANISHED in kinds:
        steps = wrong_steps(view)
        found.append(step_findings(view, steps, asked))
        if VANISHED in kinds:
            found.append(vanished(view, passed(view, steps)))
    return [one for one in found if one is not None]


def tell(view: View, found: Sequence[Rows]) -> Rows:
    """Findings as anomalies, in ``checkers.anomaly.SCHEMA``.

    Args:
        view: of the histories.
        found: in ``checkers.clients.findings.FINDING``.
    """
    none = view.engine.table(FINDING.empty_table())
    all_of_them = none.union(*found).kept()
    if not len(all_of_them):
        return view.engine.table(SCHEMA.empty_table())
    rows = all_of_them.renamed(FOUND).join(view.words, REFERENCE)
    return rows.brought().by(["finding"], told, SCHEMA)
