"""A record that a group was never given: it was there before the group began in a new partition."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from highwater.harness.runs.plan import Topic, Workload
from tests.support.explained import finding
from tests.support.run_builder import RunBuilder

GROUP = "g"
COPY = {"partition": 1, "offset": 0, "value": "m1", "note": GROUP}
M1: dict[str, Any] = {"partition": 1, "offset": 0, "value": "m1", "copies": [COPY]}


@pytest.mark.parametrize(
    ("kafka", "sought", "there_before", "sent_late", "rules"),
    [
        ("0.10.2.2", None, False, False, ["auto.offset.reset"]),
        ("4.4.0", None, False, False, ["auto.offset.reset"]),
        ("4.4.0", 1, False, False, []),  # it was told where to begin
        ("4.4.0", None, True, False, []),  # the partition is no new one
        ("4.4.0", None, False, True, []),  # it read that partition already
        ("4.3.1", "share", False, False, ["share.auto.offset.reset"]),
        ("4.4.0", "share", False, False, []),
    ],
)
def test_where_a_group_began_explains_what_it_was_not_given(
    tmp_path: Path,
    kafka: str,
    sought: int | str | None,
    there_before: bool,
    sent_late: bool,
    rules: list[str],
) -> None:
    topic = Topic(partitions=2)
    run = RunBuilder(tmp_path / "run", kafka=kafka, topic=topic, workload=Workload(producers=0))
    run.leader(1, 0, [1, 2, 3])
    if there_before:
        run.leader(2, 0, [1, 2, 3], partition=1)
    run.join(GROUP)
    run.everywhere([(0, 0, "w0")])
    run.read("w0", 0, process="member-0", phase="run")
    if not there_before:
        run.leader(2, 0, [1, 2, 3], partition=1)
    if not sent_late:
        run.everywhere([(0, 0, "m1")], partition=1)
    if not isinstance(sought, str):
        run.rebalance(1)
        run.seek(1, sought)
    run.everywhere([(1, 0, "m2")], partition=1)
    run.read("m2", 1, partition=1, process="member-0", phase="run")
    if sent_late:
        run.everywhere([(0, 0, "m1")], partition=1)
    found = finding(run, "undelivered", **M1)
    assert found.verdict == ("explained" if rules else "unexplained")
    if rules:
        assert [link.rule for link in found.because] == ["added-partition", "acks=all", *rules]
        assert "s after it was added" in found.because[-1].says


@pytest.mark.parametrize(
    ("kafka", "accepted", "moved", "explained"),
    [
        ("4.4.0", "info", True, True),
        ("4.4.0", "ok", True, False),  # with it, the leader stored the start offset
        ("4.4.0", "info", False, False),
        ("4.0.2", "info", True, False),  # without share groups
    ],
)
def test_a_start_that_was_not_stored_explains_what_a_share_group_was_not_given(
    tmp_path: Path, kafka: str, accepted: str, moved: bool, explained: bool
) -> None:
    run = RunBuilder(tmp_path / "run", kafka=kafka, workload=Workload(producers=0, share=1))
    run.leader(1, 0, [1, 2, 3])
    run.join(GROUP, process="share-0")
    run.everywhere([(0, 0, "w0")])
    run.journal("acquired", "share-0", 0, group=GROUP)
    run.everywhere([(0, 0, "m1")])
    if moved:
        run.leader(2, 1, [1, 2, 3])
    run.journal("accept", "share-0", 0, group=GROUP, outcome=accepted)
    run.everywhere([(1, 0, "m2")])
    run.journal("acquired", "share-0", 2, group=GROUP)
    copy = COPY | {"partition": 0, "offset": 1}
    found = finding(run, "undelivered", partition=0, offset=1, value="m1", copies=[copy])
    assert found.verdict == ("explained" if explained else "unexplained")
    if explained:
        assert [link.rule for link in found.because] == ["acks=all", *2 * ["unsaved-start"]]


@pytest.mark.parametrize(
    ("kafka", "api", "explained"),
    [
        ("4.4.0", "ShareFetch.answer", True),
        ("4.4.0", "Produce.answer", False),
        ("4.1.2", "ShareFetch.answer", False),
    ],
)
def test_lost_responses_explain_a_record_that_a_share_group_was_not_given(
    tmp_path: Path, kafka: str, api: str, explained: bool
) -> None:
    run = RunBuilder(tmp_path / "run", kafka=kafka, workload=Workload(producers=0, share=1))
    run.leader(1, 0, [1, 2, 3])
    run.join(GROUP, process="share-0")
    run.fault("drop-message", None, f"to be dropped: {api} *>client:share-0 times=0")
    run.everywhere([(0, 0, "m1")])
    run.fault("drop-message", None, f"no longer dropped: {api} *>client:share-0", phase="heal")
    run.everywhere([(0, 0, "m2")])
    run.journal("acquired", "share-0", 1, group=GROUP)
    copy = COPY | {"partition": 0}
    found = finding(run, "undelivered", partition=0, offset=0, value="m1", copies=[copy])
    assert found.verdict == ("explained" if explained else "unexplained")
    if explained:
        assert [link.rule for link in found.because] == ["acks=all", "drop-message"]


@pytest.mark.parametrize(
    ("minutes", "away_s", "sought", "explained"),
    [
        ("1", 61, None, True),
        ("1", 59, None, False),  # the coordinator may not have forgotten it
        ("1", 61, 2, False),  # it was told where to begin
        ("", 61, None, False),  # offsets are kept for days
    ],
)
def test_an_offset_that_has_expired_explains_what_a_group_was_not_given(
    tmp_path: Path, minutes: str, away_s: int, sought: int | None, explained: bool
) -> None:
    run = RunBuilder(tmp_path / "run", kafka="4.4.0", workload=Workload(producers=0, joined=2))
    kept = {"offsets.retention.minutes": minutes} if minutes else {}
    run.plan = msgspec.structs.replace(run.plan, broker_config=kept)
    run.leader(1, 0, [1, 2, 3])
    run.join(GROUP)
    run.everywhere([(0, 0, "w0")])
    run.read("w0", 0, process="member-0", phase="run")
    run.journal("commit", "member-0", 1, group=GROUP)
    run.everywhere([(1, 0, "m1")])
    run.tick(away_s * 1000)
    run.join(GROUP, process="member-1")
    run.journal("committed", "member-1", None, group=GROUP)
    run.rebalance(0, process="member-1")
    run.seek(0, sought, process="member-1")
    run.everywhere([(2, 0, "m2")])
    run.read("m2", 2, process="member-1", phase="run")
    copy = COPY | {"partition": 0, "offset": 1}
    found = finding(run, "undelivered", partition=0, offset=1, value="m1", copies=[copy])
    assert found.verdict == ("explained" if explained else "unexplained")
    if explained:
        rules = [link.rule for link in found.because]
        assert rules == ["offsets.retention", "acks=all", "offsets.retention"]
        assert "61.0 s later member-1 joined" in found.because[-1].says


@pytest.mark.parametrize("committed", [False, True])
def test_an_offset_of_an_earlier_topic(tmp_path: Path, committed: bool) -> None:
    run = RunBuilder(tmp_path / "run", kafka="4.4.0", workload=Workload(producers=0, joined=1))
    run.leader(1, 0, [1, 2, 3])
    if committed:
        run.journal("commit", "member-0", 3, group=GROUP)
    run.journal("committed", "member-0", 3, group=GROUP)
    found = finding(run, "foreign-offset", partition=0, offset=3, copies=[COPY])
    assert found.verdict == ("unexplained" if committed else "explained")


def test_a_read_without_an_end_explains_nothing(tmp_path: Path) -> None:
    """It is of a transaction that a crash left open."""
    topic = Topic(partitions=2)
    run = RunBuilder(tmp_path / "run", kafka="4.4.0", topic=topic, workload=Workload(producers=0))
    for partition in (0, 1):
        run.leader(1, 0, [1, 2, 3], partition=partition)
    run.join(GROUP)
    run.everywhere([(0, 0, "m1"), (1, 0, "m2")], partition=1)
    run.read("m2", 1, partition=1, process="member-0", phase="run")
    run.rows["history/ops"][-1]["complete_ns"] = None
    found = finding(run, "undelivered", **M1)
    assert found.verdict == "unexplained"
    assert "the group's reads of its partition" in found.because[-1].says


@pytest.mark.parametrize(
    ("client", "heir", "verdict"),
    [
        ("java:3.9.0", "member-1", "explained"),
        ("java:4.0.0", "member-1", "unexplained"),
        ("java:3.9.0", "member-0", "unexplained"),  # it had the partition all the time
    ],
)
def test_a_member_that_dies_at_work_takes_a_record_with_it(
    tmp_path: Path, client: str, heir: str, verdict: str
) -> None:
    topic, workload = Topic(partitions=2), Workload(producers=0)
    run = RunBuilder(tmp_path / "run", kafka="4.4.0", topic=topic, workload=workload, client=client)
    run.leader(1, 0, [1, 2, 3])
    run.leader(1, 0, [1, 2, 3], partition=1)
    for process in ("member-0", "member-1"):
        run.join(GROUP, process)
    run.rebalance(1, "member-0")
    run.seek(1, None, "member-0")
    run.everywhere([(0, 0, "w0")])
    run.read("w0", 0, process="member-1", phase="run")
    run.everywhere([(0, 0, "m1")], partition=1)
    run.rebalance(1, heir)
    run.seek(1, None, heir)
    run.everywhere([(1, 0, "m2")], partition=1)
    run.read("m2", 1, partition=1, process=heir, phase="run")
    assert finding(run, "undelivered", **M1).verdict == verdict
