"""Outages are measured as far as they were observed, and limits decide the verdict."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from pyspark.sql import SparkSession

from highwater.checkers.availability import _by_slot
from highwater.checkers.history.row_flags import SENT_OK
from highwater.checkers.history.send_waits import SPAN, TOGETHER_NS, merged, waits
from highwater.checkers.judge import judge
from highwater.harness.base.errors import UsageError
from highwater.harness.runs.availability import Availability, FaultOutages, Outage
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.verdict import Verdict
from highwater.shrinking.trials import Goal
from tests.support.run_builder import RunBuilder

NS = 1_000_000_000


def test_a_run_that_only_reads_has_no_waits() -> None:
    assert _by_slot(SPAN.empty_table()) == {}


def sent(
    run: RunBuilder, offset: int, begin_s: float, end_s: float | None, outcome: str = "ok"
) -> None:
    """A send of producer-0 that waited from one time to another."""
    run._operation(
        process="producer-0",
        kind="send",
        phase="run",
        outcome=outcome,
        invoke_ns=int(begin_s * NS),
        complete_ns=None if end_s is None else int(end_s * NS),
        partition=0,
        offset=offset if outcome == "ok" else None,
        leader_epoch=None,
        acks=run.workload.acks,
        value=f"m{offset}",
        error=None if outcome == "ok" else "_TIMED_OUT",
    )


def killed(
    path: Path, *, acks: str = "all", outage_s: float = 0, recovery_s: float = 0
) -> RunBuilder:
    """Broker 1 is killed at 2 s and in sync at 9 s; the metadata lacks a leader from 3 s to 4 s."""
    workload = msgspec.convert({"acks": acks}, Workload)
    run = RunBuilder(path, kafka="4.4.0", workload=workload)
    run.plan = Plan(
        kafka="4.4.0",
        topic=Topic(),
        workload=workload,
        nemesis=("kill",),
        max_outage_s=outage_s,
        max_recovery_s=recovery_s,
    )
    run.leader(1, 0, [1, 2, 3])
    run.observe_all(0)
    for offset, (begin_s, end_s) in enumerate([(1, 1.01), (1.9, 5), (5.1, 5.2), (8, 8.1)]):
        sent(run, offset, begin_s, end_s)
    for second, change in (
        (2, lambda: run.fault("kill", 1, "broker 1 is killed")),
        (2, lambda: run.observe(1, None)),
        (3, lambda: run.leader(-1, 1, [2, 3])),
        (4, lambda: run.leader(2, 2, [2, 3])),
        (6, lambda: run.fault("kill", 1, "broker 1 is healed", phase="heal")),
        (9, lambda: run.leader(2, 2, [1, 2, 3])),
    ):
        run.now_ns = second * NS
        change()  # type: ignore[no-untyped-call]
    run.now_ns = 10 * NS
    run.observe_all(4)
    run.disk([1, 2, 3], [(offset, 0, f"m{offset}") for offset in range(4)])
    for offset in range(4):
        run.read(f"m{offset}", offset)
    run.fence(4)
    run.disk([1, 2, 3], [(4, 2, "fence-0")])
    return run


def unanswered(path: Path) -> RunBuilder:
    """The last send is given up at 40 s, and none is acknowledged after it."""
    run = killed(path, outage_s=60)
    sent(run, 5, 20, 40, "info")
    return run


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    folder = tmp_path_factory.mktemp("runs")
    blind = killed(folder / "blind", outage_s=9, recovery_s=9)
    blind.rows["events/partitions"] = []
    runs = {
        "killed": killed(folder / "killed"),
        "within": killed(folder / "within", outage_s=4, recovery_s=3),
        "beyond": killed(folder / "beyond", outage_s=3, recovery_s=2.9),
        "unacknowledged": killed(folder / "unacknowledged", acks="0", outage_s=9),
        "blind": blind,
        "unanswered": unanswered(folder / "unanswered"),
    }
    return dict(zip(runs, judge([run.write() for run in runs.values()], spark), strict=True))


def test_a_fault_has_three_outages(verdicts: dict[str, Verdict]) -> None:
    whole = verdicts["killed"].availability
    assert whole is not None
    assert whole.unacknowledged == Outage(seconds=3.1, where="events-0", since_s=1.9)
    assert whole.leaderless == Outage(seconds=2.0, where="events-0", since_s=2.0)
    assert whole.unsynced == Outage(seconds=3.0, where="events-0", since_s=6.0)
    [fault] = whole.faults
    assert (fault.fault, fault.broker, fault.at_s, fault.healed_s) == ("kill", 1, 2.0, 6.0)
    assert fault.unacknowledged == Outage(seconds=3.0, where="events-0", since_s=2.0)
    assert (fault.leaderless, fault.unsynced) == (whole.leaderless, whole.unsynced)


def test_a_limit_that_is_exceeded_makes_a_run_invalid(verdicts: dict[str, Verdict]) -> None:
    assert verdicts["within"].verdict == verdicts["killed"].verdict == "valid"
    assert verdicts["beyond"].verdict == "invalid"
    assert "with longer outages than its limits allow" in verdicts["beyond"].headline
    within = (
        "; outages are within --max-outage 3s and --max-recovery 2.9s; replicas never disagree."
    )
    assert verdicts["beyond"].promise.endswith(within)
    with pytest.raises(UsageError, match="no anomaly to keep"):
        Goal.of(verdicts["beyond"])
    assert verdicts["beyond"].reasons == (
        (
            "Time without an acknowledgement: 3.1 s (events-0, from 1.9 s after the run's start)."
            " --max-outage allows 3 s."
        ),
        (
            "Time until all replicas are in sync: 3.0 s (events-0, from 6.0 s after the run's"
            " start). --max-recovery allows 2.9 s."
        ),
    )


def test_nothing_observed_is_no_zero(verdicts: dict[str, Verdict]) -> None:
    """Without acknowledgements, and without metadata, a limit was not tested."""
    mute, blind = verdicts["unacknowledged"], verdicts["blind"]
    assert mute.availability is not None
    assert blind.availability is not None
    assert mute.availability.unacknowledged is None
    assert (blind.availability.leaderless, blind.availability.unsynced) == (None, None)
    assert blind.availability.unacknowledged is not None
    assert (mute.verdict, blind.verdict) == ("unknown", "unknown")
    assert "--max-outage was not tested" in mute.reasons[0]
    assert "--max-recovery was not tested" in blind.reasons[0]


def test_an_outage_that_goes_on_is_at_least_so_long(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["unanswered"]
    assert verdict.availability is not None
    assert verdict.availability.unacknowledged == Outage(
        seconds=20.0, where="events-0", since_s=20.0, least=True
    )
    assert verdict.verdict == "unknown"
    assert any("--max-outage may have been exceeded" in reason for reason in verdict.reasons)


def test_a_recovery_that_the_next_fault_interrupts_exceeds_no_limit() -> None:
    one, other = (
        FaultOutages(
            fault="kill",
            broker=1,
            at_s=1.0,
            healed_s=2.0,
            unsynced=Outage(seconds=seconds, where="events-0", since_s=2.0, least=least),
        )
        for seconds, least in ((5.0, True), (3.0, False))
    )
    limits = {"unsynced": ("--max-recovery", 9.0)}
    measured = Availability(unsynced=one.unsynced, faults=(one, other))
    assert [*measured.untested(limits), *measured.exceeded(limits)] == []
    assert len([*Availability(unsynced=one.unsynced, faults=(one,)).untested(limits)]) == 1
    assert [*Availability().untested(limits)] == []


def test_ranges_are_joined_within_their_slot() -> None:
    slot, since, until = np.array([[2, 1, 1, 1, 2], [0, 0, 5, 9, 3], [1, 7, 6, 10, 4]])
    assert merged(slot, since, until, within=2).to_pylist() == [
        {"slot": 1, "since": 0, "until": 10},
        {"slot": 2, "since": 0, "until": 4},
    ]
    assert len(merged(slot, since, until)) == 4
    assert not len(merged(slot[:0], since[:0], until[:0]))


def test_waits_with_short_gaps_are_one() -> None:
    """So that a long history of quick sends has a few ranges, and not as many as sends."""
    begins = np.arange(5_000) * TOGETHER_NS
    begins[-1] += 1
    rows = {"slot": 0 * begins, "fact": 0 * begins + SENT_OK}
    rows |= {"invoke_ns": begins, "complete_ns": begins}
    assert waits(rows).to_pylist() == [
        {"slot": 0, "since": 0, "until": begins[-2]},
        {"slot": 0, "since": begins[-1], "until": begins[-1]},
    ]
