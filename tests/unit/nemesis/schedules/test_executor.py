"""A fault that cannot be injected now is left out; what went wrong in earnest ends the run."""

import pytest

from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.nemesis.faults.registry import NothingDoneError
from highwater.nemesis.injector import FaultConflictError
from highwater.nemesis.schedules.executor import why_not_now


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("move-leader", WaitTimeoutError("waited 10 s for a response that names the leader of")),
        ("reassign", UnreachableError("ZooKeeper does not answer")),
        ("session-expiry", UnreachableError("ZooKeeper does not answer")),
        ("downgrade", NothingDoneError("Kafka forbids a downgrade from 4.3.1")),
        ("unclean-election", NothingDoneError("events-0 has nobody who could lead it")),
    ],
)
def test_a_request_that_nobody_answers_or_that_does_nothing_is_left_out(
    fault: str, error: HarnessError
) -> None:
    assert why_not_now(fault, error) == error.message


def test_what_overlaps_is_left_out() -> None:
    assert why_not_now("kill", FaultConflictError("broker 1 already has an open fault")).startswith(
        "it would"
    )


def test_a_broker_that_does_not_come_back_ends_the_run() -> None:
    with pytest.raises(WaitTimeoutError, match="broker 1 to start"):
        why_not_now("restart", WaitTimeoutError("waited 60 s for broker 1 to start"))


def test_what_strikes_a_broker_that_ended_by_itself_is_left_out() -> None:
    error = HarnessError("broker 2 is down and cannot be paused")
    assert "had exited by itself" in why_not_now("zombie", error, ended=True)
    with pytest.raises(HarnessError, match="cannot be paused"):
        why_not_now("zombie", error)
