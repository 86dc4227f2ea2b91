"""Client drivers on real brokers: a right one, and one for each way to break the specification."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.api import perform
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.store import Store
from highwater.runtime import driver_check
from highwater.runtime.driver_check import PARTS, DriverBench
from highwater.runtime.runner import boot

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "docs" / "examples" / "drivers" / "librdkafka.py"
BROKEN = {
    "silent": ("open", "open has no answer after"),
    "no-library": ("open", "the answer to open has no `library`"),
    "ok-without-offset": ("send", "all-0 is acknowledged without an `offset`"),
    "wrong-offset": ("send", "all-0 is acknowledged at offset"),
    "swapped-answers": ("send", "is acknowledged at offset"),
    "lost-answer": ("send", "has no answer after"),
    "two-answers": ("send", "which does not wait for an answer"),
    "crash": ("send", "it ended by itself"),
    "garbage": ("send", "is no answer: Object missing required field"),
    "made-up-offset": (
        "acks=0",
        "with acks=0 brokers return no offset, and the answer is offset 0",
    ),
    "nowhere": ("partition", "of a partition that is not there is acknowledged"),
    "no-numbers": (
        "errors",
        "Kafka's error 10, and the answer is error MSG_SIZE_TOO_LARGE, code -1",
    ),
    "ok-for-errors": ("time-out", "a record is acknowledged while all brokers are paused"),
    "never-sent": ("time-out", "answered with _MSG_TIMED_OUT and `queued: false`"),
    "no-end": ("end", "after its input has ended the driver goes on"),
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DriverBench]:
    folder = tmp_path_factory.mktemp("drivers")
    cluster = boot(Plan(kafka=MODERN), folder)
    yield DriverBench(cluster, folder / "driver.log")
    cluster.close()


def test_the_example_does_what_is_specified(bench: DriverBench) -> None:
    parts = [*bench.check([sys.executable, str(EXAMPLE)])]
    assert [part.name for part in parts] == [*PARTS]
    assert [part.seen for part in parts if not part.right] == []


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, marks=[pytest.mark.nightly] if part in {"time-out", "end"} else [])
        for fault, (part, _) in BROKEN.items()
    ],
)
def test_a_broken_driver_is_found(
    bench: DriverBench, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault in {"silent", "lost-answer"}:
        monkeypatch.setattr(driver_check, "OPENS_S", 3.0)
        monkeypatch.setattr(driver_check, "_ANSWERS_S", 5.0)
    name, says = BROKEN[fault]
    [part] = bench.check([sys.executable, str(HERE / "broken_driver.py"), fault], name)
    assert not part.right
    assert says in part.seen


def test_a_run_with_a_driver_is_judged(tmp_path: Path) -> None:
    plan = Plan(
        kafka=MODERN,
        nemesis=("kill",),
        client=f"{sys.executable} {EXAMPLE}",
        topic=Topic(partitions=3),
        workload=Workload(producers=2, churn_s=3),
        duration_s=8,
    )
    [judged] = perform([plan], Store(tmp_path))
    assert judged.verdict.verdict == "valid"
    assert judged.verdict.ledger.acknowledged > 500
