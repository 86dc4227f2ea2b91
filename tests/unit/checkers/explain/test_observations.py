"""What was not observed is not known: it is never held against Kafka."""

import shutil
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from random import Random

import msgspec
import pyarrow.parquet as pq
import pytest

from highwater.checkers.explain.explanations import EXPLANATIONS
from highwater.checkers.explain.observations import SOURCES, Observation
from highwater.checkers.explain.reconcile import as_random, as_scripted
from highwater.checkers.model.report_types import PartitionOutcome, Reconciliation
from highwater.harness.runs.history import MESSAGES_TABLE
from highwater.harness.runs.plan import Acks, External, Topic, Workload
from highwater.harness.runs.store import Run
from highwater.reports.model_text import sentence
from tests.histories.failover import NEW, OLD, failover
from tests.support.explained import TRANSACTIONS, anomaly
from tests.support.judged import anomalies, verdict
from tests.support.run_builder import RunBuilder
from tests.unit.checkers.explain.evidence.test_licences import TRIALS

OURS = External(inventory="own.toml", cluster_id="c", brokers=(1, 2, 3), commands=("kill", "copy"))
TABLES = {
    Observation.LEADERSHIPS: "events/partitions",
    Observation.REPLICAS: "events/replicas",
    Observation.BROKER_LOGS: "events/log_lines",
}
TAKEN = [
    taken for size in (1, 2) for taken in combinations(Observation, size)
]  # each observation, and pairs


def take_away(run: Run, *taken: Observation) -> None:
    """Leave a run without some observations."""
    for each in taken:
        if each in TABLES:
            path = run.parquet(TABLES[each])
            pq.write_table(pq.read_table(path).slice(0, 0), path)
        elif each is Observation.DISKS:
            shutil.rmtree(run.replicas)
        elif each is Observation.WIRE:
            run.parquet(MESSAGES_TABLE).unlink(missing_ok=True)
        else:
            plan = msgspec.structs.replace(run.plan(), external=OURS, driver="external")
            run.write("plan.json", plan.to_json())


def with_anomalies(run: Run) -> Run:
    """Note the acknowledged records that the final reader did not meet as lost."""
    rows = run.table("history/ops").to_pylist()
    read = {row["value"] for row in rows if row["phase"] == "final"}
    place = {"kind": "lost-write", "topic": "events", "acks": "1", "partition": 0}
    lost = [row for row in rows if row["kind"] == "send" and row["value"] not in read]
    assert lost
    anomalies(run, *(place | {"offset": row["offset"], "value": row["value"]} for row in lost))
    return run


def built(run: RunBuilder, kind: str, **row: object) -> Run:
    """The run, in which one anomaly was found."""
    made = run.write()
    anomalies(made, anomaly(run, kind, **row))
    return made


def honest(path: Path, seeds: range) -> Iterator[Run]:
    """Yield runs in which all is explained: failovers, and requests that came late."""
    for kafka in (OLD, NEW):
        for seed in seeds:
            dice = Random(f"{kafka} {seed}")  # noqa: S311 - to be repeatable
            yield with_anomalies(failover(path / f"{kafka}-{seed}", dice, kafka=kafka))
    for name, trial in TRIALS.items():
        kafka, client = trial.explained[0]
        run = RunBuilder(path / name, kafka=kafka, client=client, workload=TRANSACTIONS)
        run.leader(1, 0, [1, 2, 3])
        run.tick(3_000)
        row = trial.build(run)
        yield built(run, **row)


def answer(run: Run) -> Reconciliation:
    return as_random(run, verdict(kafka=run.plan().kafka))


@pytest.mark.parametrize(
    ("seeds", "every"),
    [
        (range(1), 2),
        pytest.param(range(250), 1, marks=[pytest.mark.nightly, pytest.mark.slow]),
    ],
)
def test_no_answer_becomes_an_accusation_when_observations_are_missing(
    tmp_path: Path, seeds: range, every: int
) -> None:
    for number, run in enumerate(honest(tmp_path, seeds)):
        whole = answer(run)
        assert whole.status == "explained", (run.path, whole.findings)
        for taken in TAKEN[number % every :: every]:
            copy = Run(tmp_path / "part")
            shutil.copytree(run.path, copy.path)
            take_away(copy, *taken)
            missing = {*taken}
            if Observation.MACHINES in taken:  # on a cluster of one's own
                missing.add(Observation.BROKER_LOGS)
            part = answer(copy)
            shutil.rmtree(copy.path)
            assert part.status in ("explained", "unknown"), (run.path, taken, part.findings)
            assert "cannot follow" not in sentence(part)
            for finding in part.findings:
                if finding.verdict == "unknown":
                    assert "The run lacks the observations" in finding.because[-1].says
                    assert any(str(each) in finding.because[-1].says for each in missing)
            if part.status == "unknown":
                assert "The run lacks the observations" in sentence(part)


def failed_over(
    path: Path,
    *,
    unclean: bool = False,
    told: int | None = None,
    acks: Acks = "1",
    epoch: int = 1,
    between: bool = False,
) -> Run:
    """Broker 2 led from 3 on, and had appended more when it was first seen to lead.

    Args:
        path: of the run.
        unclean: whether it was elected from outside the ISR.
        told: the leader epoch that readers were told.
        acks: of the producer.
        epoch: of the new leader; above 1, something was decided that was not seen.
        between: whether broker 3 led in the epoch before, and appended nothing.
    """
    run = RunBuilder(
        path,
        kafka="4.4.0",
        workload=Workload(acks=acks),
        topic=Topic(unclean_leader_election=unclean),
    )
    run.plan = msgspec.structs.replace(run.plan, external=OURS, driver="external")
    run.leader(1, 0, [1] if unclean else [1, 2, 3])
    kept = [(offset, 0, f"p0-{offset}") for offset in range(3)]
    run.everywhere(kept)
    run.observe_all(3)
    run.send("p0-3", 3)
    run.fault("kill", 1, "broker 1 is killed")
    run.tick(1_000)
    if between:
        run.leader(3, epoch - 1, [2, 3])
        run.tick(500)
    run.send("p0-4", 3)
    run.send("p0-5", 4)
    run.observe(2, 5)
    run.tick(1)
    run.leader(2, epoch, [2, 3])
    run.disk((1, 2, 3), [(3, epoch, "p0-4"), (4, epoch, "p0-5")])
    run.read("p0-4", 3, leader_epoch=told)
    run.read("p0-5", 4, leader_epoch=told)
    return built(run, "lost-write", offset=3, value="p0-3")


@pytest.mark.parametrize(("unclean", "word"), [(True, "explained"), (False, "unknown")])
def test_a_leader_from_outside_the_last_isr_may_be_elected_where_that_is_allowed(
    tmp_path: Path, *, unclean: bool, word: str
) -> None:
    """No broker answered for a while, and the epoch has risen by two."""
    run = failed_over(tmp_path / "run", unclean=unclean, acks="all", epoch=2)
    [found] = answer(run).findings
    assert found.verdict == word
    if unclean:
        assert "elected from outside the last observed ISR in epoch 2" in (found.because[-1].says)


@pytest.mark.parametrize("unclean", [False, True])
def test_a_leader_of_a_cluster_of_one_s_own_begins_where_its_epoch_does(
    tmp_path: Path, *, unclean: bool
) -> None:
    """A newcomer's run: what was seen of its log is of after its election."""
    found = answer(failed_over(tmp_path / "run", unclean=unclean))
    assert found.status == "explained", found.findings
    assert any("led from offset 3" in link.says for link in found.findings[0].because)
    assert "cuts" not in found.checked  # nobody saw any


def test_a_leader_that_appended_nothing_needs_no_question_about_its_epoch(tmp_path: Path) -> None:
    """Of a managed service: readers are told of no record of epoch 1."""
    run = failed_over(tmp_path / "run", told=2, epoch=2, between=True)
    take_away(run, Observation.DISKS)
    found = answer(run)
    assert found.status == "explained", found.findings
    assert "Broker 3 was elected in epoch 1" in found.findings[0].because[-1].says


@pytest.mark.parametrize(("told", "status"), [(1, "explained"), (None, "unknown")])
def test_without_a_copy_of_the_disks_readers_tell_where_an_epoch_begins(
    tmp_path: Path, told: int | None, status: str
) -> None:
    """A managed service; where clients are told no epochs, it is not known."""
    run = failed_over(tmp_path / "run", told=told)
    take_away(run, Observation.DISKS)
    found = answer(run)
    assert found.status == status, found.findings
    assert [each.verdict for each in found.findings] == [status]
    assert ("the brokers' own logs" in sentence(found)) is (status == "unknown")


def test_a_script_accuses_no_one_of_what_was_not_observed(tmp_path: Path) -> None:
    """The model, playing the script, loses nothing; how the record was lost nobody has seen."""
    kept = PartitionOutcome(logs=dict.fromkeys("ABC", ("p0-0", "p0-1", "p0-2", "p0-3")))
    run = failed_over(tmp_path / "run")
    words = {}
    for taken in (Observation.WIRE, Observation.LEADERSHIPS):  # of the first nothing was there
        take_away(run, taken)
        found = as_scripted(run, verdict(), kept)
        words[taken] = (found.status, [each.verdict for each in found.findings])
    assert words == {
        Observation.WIRE: ("unexplained", ["unexplained"]),
        Observation.LEADERSHIPS: ("unknown", ["unknown"]),
    }
    assert "The run lacks the observations" in sentence(found)


def without_power(path: Path, *, external: bool) -> Run:
    """Every broker is killed, and comes back without the last record: nobody had flushed it."""
    run = RunBuilder(path, kafka="4.4.0", workload=Workload(acks="all"))
    if external:
        run.plan = msgspec.structs.replace(run.plan, external=OURS, driver="external")
    run.leader(1, 0, [1, 2, 3])
    run.everywhere([(offset, 0, f"p0-{offset}") for offset in range(3)])
    run.send("p0-3", 3)
    run.observe_all(4, 4)
    run.tick(500)
    for phase in ("inject", "heal"):
        for broker in (1, 2, 3):
            run.fault("kill", broker, "of every broker", phase=phase)
        run.tick(3_000)
    run.leader(1, 1, [1])
    run.tick(1)
    run.leader(1, 1, [1, 2, 3])
    run.observe_all(3, 3)
    run.send("p0-4", 3)
    run.disk((1, 2, 3), [(3, 1, "p0-4")])
    run.read("p0-4", 3)
    return built(run, "lost-write", offset=3, value="p0-3")


def test_what_the_command_to_kill_took_with_it_is_not_known(tmp_path: Path) -> None:
    """It may cut a machine's power; of a process that Highwater kills every byte stays."""
    own = answer(without_power(tmp_path / "own", external=True))
    assert {finding.kind: finding.verdict for finding in own.findings} == {"lost-write": "unknown"}
    assert "records that their machines lost when they stopped" in sentence(own)
    assert answer(without_power(tmp_path / "local", external=False)).status == "unexplained"


def test_whoever_was_not_in_the_isr_may_have_joined_between_two_looks(tmp_path: Path) -> None:
    """Without the brokers' logs nobody knows; with them it is not allowed."""
    words = {}
    for external in (True, False):
        run = RunBuilder(tmp_path / f"{external}", kafka="4.4.0", workload=Workload(acks="1"))
        if external:
            run.plan = msgspec.structs.replace(run.plan, external=OURS, driver="external")
        run.leader(1, 0, [1])
        run.tick(5_000)
        run.send("gone", 1)
        run.tick(100)
        run.leader(2, 1, [2])
        run.everywhere([(0, 0, "p0-0")])
        run.disk((1, 2, 3), [(1, 1, "p0-1")])
        run.send("p0-1", 1)
        words[external] = answer(built(run, "lost-write", offset=1, value="gone")).status
    assert words == {True: "unknown", False: "unexplained"}


def test_every_observation_has_a_source_and_something_that_rests_on_it() -> None:
    needed = {each for table in EXPLANATIONS.values() for rule in table for each in rule.needs}
    assert needed == SOURCES.keys() == {*Observation}
