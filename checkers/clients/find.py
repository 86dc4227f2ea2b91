"""Every anomaly of the clients' view, of all histories in one pass.

First it is asked, by a few sums over all rows, what may be wrong at all; then only those rows are
looked at again. A history in which nothing is wrong costs the sums alone.
"""

from pathlib import Path
from typing import Final

from checkers.clients.contents import CONTENTS, contents
from checkers.clients.sequence import WRONG_STEPS, wrong_steps
from checkers.clients.skips import STEPPED, STEPS, step_findings
from checkers.clients.vanished import VANISHED, vanished
from checkers.clients.view import View
from checkers.clients.witness import witnessed

KINDS: Final = CONTENTS | STEPS | {VANISHED}
"""All kinds but the cycles."""


def find(view: View, kinds: frozenset[str] = KINDS) -> Path:
    """The anomalies of these kinds: a folder of files, in ``checkers.anomaly.SCHEMA``."""
    found, told, rows = contents(view, kinds), [], []
    asked = kinds & STEPS
    if asked or VANISHED in kinds:
        wrong = wrong_steps(view)
        if asked and view.any(WRONG_STEPS):
            told.append(step_findings(view, asked))
            rows.append(view.held(STEPPED))
        if VANISHED in kinds and (gone := vanished(view, wrong)) is not None:
            found.append(gone)
    return witnessed(view, found, told, rows)
