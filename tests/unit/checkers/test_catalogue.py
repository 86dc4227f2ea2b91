"""The list of checkers: whole, without two of one name, and quick to leave alone."""

import subprocess
import sys
from collections import Counter

import pytest

from highwater.checkers.catalogue import CHECKERS, our_kinds
from highwater.checkers.core.anomaly_kinds import Kind
from highwater.checkers.core.jepsen_kinds import FOREIGN
from highwater.harness.runs.plan import Plan


def every_kind() -> list[Kind]:
    return [*(kind for one in CHECKERS for kind in one.kinds), *FOREIGN]


def test_no_two_kinds_have_one_name() -> None:
    assert set(Counter(kind.name for kind in every_kind()).values()) == {1}


def test_every_kind_says_what_it_is_in_sentences() -> None:
    for kind in every_kind():
        assert kind.guarantee.endswith(".")
        assert not kind.singular.endswith(".")
        assert not kind.plural.endswith(".")
        assert ": " in kind.promise
        assert isinstance(kind.breaks(Plan(kafka="4.3.1"), 1), bool)


def test_the_order_is_that_of_reports() -> None:
    names = list(our_kinds())
    assert names[:5] == ["lost-write", "unseen", "duplicate", "vanished", "divergence"]
    assert names[-3:] == ["G1c", "G1c-process", "G1c-realtime"]


@pytest.mark.slow
def test_reports_start_without_any_checker() -> None:
    told = (
        "import sys, highwater.reports.pages.run;"
        "print(sorted({'pyspark', 'highwater.checkers.catalogue'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
