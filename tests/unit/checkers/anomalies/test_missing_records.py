"""Which records are lost, and which unseen."""

import itertools

import numpy as np

from highwater.checkers.anomalies.missing_records import missing_records


def test_a_record_is_lost_or_unseen_or_neither() -> None:
    cases = list(itertools.product((False, True), repeat=4))
    took_effect, acknowledged, returned, passed = (
        np.array(column) for column in zip(*cases, strict=True)
    )
    lost, unseen = missing_records(
        took_effect=took_effect, acknowledged=acknowledged, returned=returned, passed=passed
    )
    decided = {
        case: "lost" if is_lost else "unseen"
        for case, is_lost, is_unseen in zip(cases, lost, unseen, strict=True)
        if is_lost or is_unseen
    }
    assert not (lost & unseen).any()
    assert decided == {
        (True, False, False, True): "lost",
        (True, True, False, True): "lost",
        (True, True, False, False): "unseen",
    }
