"""Leader epochs along a log, in all logs of five records and two epochs."""

from itertools import product
from typing import Any

import pytest

from highwater.checkers.inspection.replica_findings import Facts, disordered


@pytest.mark.parametrize("epochs", [*product((0, 1), repeat=5)])
def test_epochs_must_not_fall_nor_lie_among_each_other(epochs: tuple[int, ...]) -> None:
    offsets: dict[int, list[int]] = {}
    for offset, epoch in enumerate(epochs):
        offsets.setdefault(epoch, []).append(offset)
    spans = [
        {"segment": 0, "epoch": epoch, "first": held[0], "last": held[-1], "covered": held[-1]}
        for epoch, held in offsets.items()
    ]
    replica: Any = None  # nothing of its folder is asked
    found = [finding.offset for finding in disordered(Facts(replica=replica, spans=spans))]
    if len(offsets) == 1:
        assert found == []
        return
    (before, earlier), (after, later) = offsets.items()
    wrong = later[0] < earlier[-1] or after < before
    assert found == ([later[0]] if wrong else [])
