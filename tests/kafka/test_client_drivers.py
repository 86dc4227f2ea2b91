"""Client drivers on real brokers: a right one, and one for each way to break the specification."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pytest

from highwater.api import perform
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.releases.group_protocols import GroupProtocol
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.store import Store
from highwater.runtime.drivers import bench as trials
from highwater.runtime.drivers import group_part, other_parts, producer_parts
from highwater.runtime.drivers.bench import DriverBench
from highwater.runtime.drivers.check import PARTS, check_parts
from highwater.runtime.runner import boot
from tests.kafka.test_stories import Cell
from tools.client_drivers import LIBRARIES, build, lacks

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "docs" / "examples" / "drivers" / "librdkafka.py"
BROKEN = {
    "silent": ("open", "open has no response after"),
    "no-library": ("open", "the response to open has no `library`"),
    "ok-without-offset": ("send", "all-0 is acknowledged without an `offset`"),
    "wrong-offset": ("send", "all-0 is acknowledged at offset"),
    "swapped-answers": ("send", "is acknowledged at offset"),
    "lost-answer": ("send", "has no response after"),
    "two-answers": ("send", "which does not wait for a response"),
    "crash": ("send", "the driver ended by itself"),
    "garbage": ("send", "not a response: "),
    "made-up-offset": (
        "acks=0",
        "with acks=0 brokers return no offset, but the response is offset 0",
    ),
    "nowhere": ("partition", "for a missing partition is acknowledged"),
    "no-numbers": (
        "errors",
        "Kafka's error 10, but the response is error MSG_SIZE_TOO_LARGE, code -1",
    ),
    "ok-for-errors": ("time-out", "a record is acknowledged while all brokers are paused"),
    "never-sent": ("time-out", "gets the response _MSG_TIMED_OUT and `queued: false`"),
    "no-idempotence": ("idempotence", "the leader got no producer id"),
    "commit-for-abort": ("transactions", "sees abort-0, abort-1, abort-2, commit-0"),
    "abort-for-commit": ("transactions", "sees nothing of what it has committed"),
    "ok-when-fenced": ("transactions", "but this producer's commit succeeds"),
    "uncommitted": ("consumer", "the driver reads records that another reader does not read"),
    "skips": ("consumer", "it reads"),
    "reads-twice": ("consumer", "twice"),
    "seek-to-the-beginning": ("consumer", "the driver reads another record"),
    "in-range": ("consumer", "which is not in the log, `out_of_range` has {}"),
    "no-events": ("group", "poll has no response after"),
    "other-offsets": ("group", "and the group's offsets are {"),
    "no-offsets": ("offsets", "while a transaction is open, the response to committed is {}"),
    "offsets-in-spite": ("offsets", "after abort with offset 2 the group has the offsets {0: 2}"),
    "unstable": ("offsets", "while a transaction is open, the response to committed is {}"),
    "unknown-member": ("offsets", "from a member of an old generation are accepted"),
    "no-end": ("end", "after the end of its input"),
}
WAITING = ("time-out", "group", "offsets")
"""Parts that wait for limits; by day test_readers.py has a driver that reads."""
SLOW = {"time-out", "end", "transactions", "consumer", "group", "offsets"}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DriverBench]:
    folder = tmp_path_factory.mktemp("drivers")
    cluster = boot(Plan(kafka=MODERN), folder)
    yield DriverBench(cluster, folder / "driver.log")
    cluster.close()


@pytest.mark.parametrize(
    "names",
    [
        pytest.param([name for name in PARTS if name not in WAITING], id="quick"),
        pytest.param([*WAITING], id="waiting", marks=pytest.mark.nightly),
    ],
)
def test_the_example_does_what_is_specified(bench: DriverBench, names: list[str]) -> None:
    parts = [*check_parts(bench, [sys.executable, str(EXAMPLE)], *names)]
    assert [part.name for part in parts] == names
    assert [part.seen for part in parts if not part.right] == []


@pytest.mark.nightly  # their libraries are downloaded
@pytest.mark.parametrize("name", LIBRARIES)
def test_the_drivers_of_other_languages_do_what_is_specified(
    bench: DriverBench, name: str, tmp_path: Path
) -> None:
    if tool := lacks(name):
        pytest.skip(f"{name} cannot be built: there is no {tool} on this machine")
    parts = [*check_parts(bench, [str(build(name, tmp_path))])]
    assert [part.name for part in parts] == [*PARTS]
    assert [part.seen for part in parts if not part.right] == []


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, marks=[pytest.mark.nightly] if part in SLOW else [])
        for fault, (part, _) in BROKEN.items()
    ],
)
def test_a_broken_driver_is_found(
    bench: DriverBench, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault in {"silent", "lost-answer"}:
        monkeypatch.setattr(trials, "OPENS_S", 3.0)
        monkeypatch.setattr(trials, "ANSWERS_S", 5.0)
        monkeypatch.setattr(producer_parts, "ANSWERS_S", 5.0)
    if fault in {"skips", "in-range", "no-events"}:
        monkeypatch.setattr(other_parts, "ANSWERS_S", 15.0)
        monkeypatch.setattr(group_part, "ANSWERS_S", 15.0)
    name, says = BROKEN[fault]
    if name == "consumer":  # what it must not read
        [*_] = check_parts(bench, [sys.executable, str(EXAMPLE)], "transactions")
    [part] = check_parts(bench, [sys.executable, str(HERE / "broken_driver.py"), fault], name)
    assert not part.right
    assert says in part.seen


@pytest.mark.nightly  # without faults and Spark, by day: test_readers.py
@pytest.mark.parametrize(
    ("transactions", "transform"),
    [
        pytest.param(False, False, id="plain"),
        pytest.param(True, False, id="transactions"),
        pytest.param(True, True, id="transform"),
    ],
)
def test_a_run_with_drivers_is_judged(tmp_path: Path, transactions: bool, transform: bool) -> None:
    driver = f"{sys.executable} {EXAMPLE}"
    plan = Plan(
        kafka=MODERN,
        nemesis=("kill",),
        client=driver,
        reader_client=driver,
        topic=Topic(partitions=3),
        workload=Workload(
            producers=2,
            churn_s=3,
            transactions=transactions,
            transform=transform,
            idempotence=transactions,
        ),
        duration_s=8,
    )
    [judged] = perform([plan], Store(tmp_path))
    [library] = judged.run.environment().libraries
    assert library.startswith("librdkafka ")
    assert judged.verdict.verdict == "valid"
    assert judged.verdict.ledger.acknowledged > (0 if transactions else 500)
    reads = judged.run.table("history/ops").filter(pc.field("kind") == "read").to_pylist()
    assert {row["phase"] for row in reads} == {"run", "final"}
    committed = {row["process"][:8] for row in reads if row["outcome"] == "ok"}
    assert ("producer" in committed) == transform


@pytest.mark.nightly
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_of_a_group_are_judged(tmp_path: Path, protocol: GroupProtocol) -> None:
    work = Workload(
        producers=2, consumers=0, subscribe=3, churn_s=5, group_protocol=protocol, idempotence=True
    )
    plan = Plan(
        kafka=MODERN,
        nemesis=("kill",),
        reader_client=f"{sys.executable} {EXAMPLE}",
        topic=Topic(partitions=3),
        workload=work,
        duration_s=15,
    )
    [judged] = perform([plan], Store(tmp_path))
    assert judged.verdict.verdict == "valid"
    assert judged.verdict.checkers["lost-commit"] == "held"
    members = judged.run.table("history/groups").to_pylist()
    assert {row["event"] for row in members} >= {"assigned", "committed", "revoked"}


@pytest.mark.nightly
@pytest.mark.parametrize("story", ["torn-transaction", "late-produce", "reused-sequence"])
def test_a_story_plays_with_a_driver_and_is_explained(tmp_path: Path, story: str) -> None:
    cell = Cell(story, client=f"{sys.executable} {EXAMPLE}")
    [judged] = perform([cell.plan(MODERN)], Store(tmp_path))
    assert judged.verdict.verdict == "invalid"
    assert judged.model is not None
    assert judged.model.status == "explained"
