"""Each explanation names what licenses it, and is refused where that is not in force."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from highwater.checkers.explain.evidence.licences import Explanation
from highwater.checkers.explain.evidence.other_losses import OTHERWISE
from highwater.checkers.explain.evidence.successions import SUCCESSION
from highwater.checkers.explain.evidence.unanswered_sends import UNANSWERED
from highwater.checkers.explain.explanations import EXPLANATIONS
from highwater.checkers.explain.software import Software
from highwater.checkers.explain.trace import RunTraces
from highwater.checkers.model.protocol.rules_by_release import SWITCHES
from highwater.checkers.model.transactions.transaction_rules import TRANSACTION_SWITCHES
from highwater.harness.runs.history import MESSAGES_TABLE
from highwater.harness.runs.plan import Workload
from tests.support import logdirs
from tests.support.explained import TRANSACTIONS, finding, transactional
from tests.support.run_builder import MS, RunBuilder
from tests.unit.checkers.explain.test_loss_rules import EXPLAINED, Situation

Row = dict[str, Any]
Build = Callable[..., Row]

ALL = [each for table in EXPLANATIONS.values() for each in table]
EVERY_SWITCH = {*SWITCHES, *TRANSACTION_SWITCHES}

SCRIPTED = (
    "No log line shows its effect. If it loses or forks a record in a story (scripted scenario),"
    " the model predicts that and names the switch; in a random run it stays unexplained."
)
CHECKED = "It is used to check elections and ISR changes, and explains no anomaly."
HARMLESS = "No search found a promise that breaks without it (docs/model-rules.md)."
REFUSED = "Without it a broker refuses a request that is correct, which is no anomaly."

NOT_EXPLAINING = {
    "kraft": "It chooses the coordinator, ZooKeeper or KRaft; neither loses records by itself.",
    "below_first_is_empty": "It came with epoch_on_election, and leaves the same log lines.",
    "no_epochs_is_undefined": "Every release without it lacks exact_epochs, which explains a fork.",
    "cut_on_missed_epoch": SCRIPTED,
    "cut_on_new_epoch": HARMLESS,
    "fenced_questions": SCRIPTED,
    "fenced_fetches": SCRIPTED,
    "cut_on_fetch": "It decides how truncations are checked, and loses no record by itself.",
    "diverging_is_no_progress": SCRIPTED,
    "late_needs_fetching": SCRIPTED,
    "out_of_range_cuts": "Without it a broker ends its process: the run shows that it died.",
    "diverging_tells_hw": SCRIPTED,
    "cut_drops_empty_epoch": HARMLESS,
    "async_isr": "It decides for which brokers an answer waits: that is a delay, not a loss.",
    "strict_min_isr": HARMLESS,
    "caught_up_stays": HARMLESS,
    "elr": CHECKED,
    "unclean_start_leaves": HARMLESS,
    "last_leader_alive": "Without it a partition waits for a dead leader, and loses no record.",
    "removal_bumps_epoch": HARMLESS,
    "live_joins_only": CHECKED,
    "decisions_logged": "Without it decisions are missed: elected_again_is_new explains the loss.",
    "joins_by_broker_epoch": CHECKED,
    "added_complete": SCRIPTED,
    "elr_of_replicas": SCRIPTED,
    "partition_fails_alone": "Without it followers stop fetching more partitions; nothing is lost.",
    "duplicates_cached": REFUSED,
    "lowest_sequence": "It came with verification: the lack of that explains late records.",
    "copy_is_not_lowest": REFUSED,
    "open_in_epoch": REFUSED,
    "stale_epoch_first": REFUSED,
    "adds_by_produce": "It decides who adds a partition; late requests depend on bumps_epoch.",
    "first_is_zero": "If it is on, bumps_epoch already refuses the requests that it would refuse.",
    "answers_first": "Every release has it; late messages are seen on the wire.",
}
"""Switches that license no explanation, each with the reason."""


def late_end_txn(
    run: RunBuilder, *, api: str = "EndTxn", source: str = "client:writer", when: str = "within"
) -> Row:
    """The EndTxn of an earlier transaction reaches the one of m3, which is aborted."""
    for moment in ("before", "within", "after"):
        run.tick(100)
        if moment == when:
            run.message(api, source)
        if moment == "before":
            run.send("m3", 0, outcome="fail", process="writer")
            run.rows["history/ops"][-1]["complete_ns"] += 150 * MS
    run.read("m3", 0)
    run.disk((1, 2, 3), [(0, 0, "m3")])
    return {"kind": "G1a", "offset": 0, "value": "m3"}


def commit_refused(
    run: RunBuilder,
    *,
    api: str = "EndTxn",
    source: str = "client:writer",
    when: str = "within",
    side: str = "answer",
    outcome: str = "fail",
) -> Row:
    """The commit of m3 takes effect, the wire answers it with an error, and m3 is aborted."""
    for moment in ("before", "within", "after"):
        run.tick(100)
        if moment == when:
            run.message(api, source, event="refused")
            ends = {"source": "broker-1", "target": source} if side == "answer" else {}
            error = {"side": side, "cause": "UNKNOWN_SERVER_ERROR"}
            run.rows[MESSAGES_TABLE][-1] |= error | ends
        if moment == "before":
            run.send("m3", 0, outcome=outcome, process="writer")
            run.rows["history/ops"][-1]["complete_ns"] = run.now_ns + 150 * MS
    run.read("m3", 0)
    run.disk((1, 2, 3), [(0, 0, "m3")])
    return {"kind": "G1a", "offset": 0, "value": "m3"}


def committed_in_part(run: RunBuilder, *, offset: int | None = None, outcome: str = "info") -> Row:
    """The send of m3 fails, and its transaction is committed all the same."""
    run.send("m2", 0, outcome="info", process="writer")
    run.send("m3", offset, outcome=outcome, process="writer")
    run.read("m2", 0)
    run.disk((1, 2, 3), [(0, 0, "m2")])
    return {"kind": "torn-transaction", "offset": 0, "value": "m3"}


def late_produce(
    run: RunBuilder,
    *,
    api: str = "Produce",
    source: str = "client:writer",
    outcome: str = "fail",
    offset: int | None = None,
    wait_ms: int = 100,
    partition: int = 0,
) -> Row:
    """The Produce of m2 comes after its abort, and the next transaction is committed."""
    run.send("m2", offset, outcome=outcome, process="writer")
    run.tick(wait_ms)
    run.message(api, source, partition=partition)
    run.tick(3_000)
    run.read("m2", 0)
    run.disk((1, 2, 3), [(0, 0, "m2")])
    return {"kind": "G1a", "offset": 0, "value": "m2"}


def late_opening(run: RunBuilder, **changed: Any) -> Row:  # noqa: ANN401 - those of late_produce
    """The same, and no transaction follows."""
    return late_produce(run, **changed) | {"kind": "hanging-transaction"}


def late_marker(
    run: RunBuilder,
    *,
    kind: str = "lost-write",
    api: str = "WriteTxnMarkers",
    wait_ms: int = 100,
    behind: bool = True,
) -> Row:
    """A marker that was late ends the transaction of m2, which ended otherwise."""
    lost = kind == "lost-write"
    run.send("m2", 0, outcome="ok" if lost else "fail", process="writer")
    run.rows["history/ops"][-1]["complete_ns"] += 150 * MS
    run.tick(wait_ms)
    run.message(api, "broker-2", partition=0)
    marker = logdirs.marker(1, producer=7, commit=not lost)
    for broker in (1, 2, 3):
        run.disks[broker, 0] = [transactional(0, "m2"), *([marker] if behind else [])]
    return {"kind": kind, "offset": 0, "value": "m2"}


def forgotten(
    run: RunBuilder,
    *,
    before: tuple[str, ...] = ("m0",),
    kind: str = "G1a",
    late_ms: int = 2_500,
    copy: str = "m1",
) -> Row:
    """A copy of m1 comes two seconds after the end of its transaction."""
    settings = {"producer.id.expiration.ms": "2000"}
    run.plan = msgspec.structs.replace(run.plan, broker_config=settings)
    for offset, value in enumerate(before):
        run.send(value, offset, process="writer")
    place = len(before)
    run.send("m1", place, outcome="fail", process="writer")
    run.tick(late_ms)
    run.message("Produce", "client:writer", partition=0)
    values = [*before, "m1", None, copy, None]
    for broker in (1, 2, 3):
        run.disks[broker, 0] = [
            logdirs.marker(offset, producer=7, commit=offset > place + 1)
            if value is None
            else transactional(offset, value)
            for offset, value in enumerate(values)
        ]
    return {"kind": kind, "offset": place + 2 if kind == "G1a" else place, "value": "m1"}


def forgotten_first(run: RunBuilder, **changed: Any) -> Row:  # noqa: ANN401 - those of forgotten
    """The same of the first record of its producer, with sequence number 0."""
    return forgotten(run, before=(), **changed)


def reused_sequence(
    run: RunBuilder,
    *,
    outcome: str = "fail",
    offset: int | None = None,
    process: str = "writer",
    transactions: bool = True,
) -> Row:
    """The leader has m2, which was aborted without an answer, where it acknowledged m3."""
    workload = Workload(transactions=transactions, idempotence=True)
    run.plan = msgspec.structs.replace(run.plan, workload=workload)
    run.everywhere([(0, 0, "m1")])
    run.send("m2", offset, outcome=outcome, process=process)
    run.send("m3", 1, process="writer")
    run.disk((1, 2, 3), [(1, 0, "m2")])
    return {"kind": "lost-write", "offset": 1, "value": "m3"}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A run, and the brokers and clients with which it is explained and unexplained."""

    build: Build
    explained: tuple[tuple[str, str], ...]
    unexplained: tuple[tuple[str, str], ...]
    rule: str
    says: str = ""


V1 = ("4.4.0", "librdkafka")
JAVA_V1 = ("4.4.0", "java:3.9.2")
V2 = ("4.4.0", "java")
OLD = ("3.3.2", "java")
DRIVER = ("4.4.0", "./my-driver")

TRIALS = {
    "commit-refused": Trial(
        build=commit_refused, rule="commit-refused", explained=(V1, V2, OLD, DRIVER), unexplained=()
    ),
    "committed-in-part": Trial(
        build=committed_in_part,
        rule="partial-commit",
        explained=(DRIVER, ("4.4.0", "kafka-python"), ("4.4.0", "aiokafka")),
        unexplained=(V1, V2),
    ),
    "late-end-txn": Trial(
        build=late_end_txn,
        rule="late-end-txn",
        explained=(V1, JAVA_V1, OLD, DRIVER, ("4.4.0", "kafka-python"), ("4.4.0", "aiokafka")),
        unexplained=(V2, ("4.0.1", "java")),
    ),
    "late-produce": Trial(
        build=late_produce,
        rule="late-produce",
        says="and the producer's next transaction committed it",
        explained=(V1, OLD, DRIVER, ("3.9.2", "librdkafka"), ("2.8.2", "kafka-python")),
        unexplained=(V2, JAVA_V1, ("3.9.2", "java"), ("4.4.0", "kafka-python")),
    ),
    "late-produce-that-hangs": Trial(
        build=late_opening,
        rule="late-produce",
        explained=(OLD, ("3.3.2", "librdkafka"), ("0.11.0.3", "librdkafka")),
        unexplained=(V1, V2, JAVA_V1, ("3.7.2", "librdkafka")),
    ),
    "late-marker": Trial(
        build=late_marker,
        rule="late-marker",
        explained=(V1, JAVA_V1, OLD, DRIVER, ("4.1.2", "java")),
        unexplained=(V2, ("4.2.1", "java")),
    ),
    "forgotten": Trial(
        build=forgotten,
        rule="forgotten-producer",
        explained=(V1, JAVA_V1, OLD),
        unexplained=(V2, ("2.4.1", "librdkafka"), ("4.0.1", "java")),
    ),
    "forgotten-first": Trial(
        build=forgotten_first,
        rule="forgotten-producer",
        explained=(("2.4.1", "librdkafka"), V1),
        unexplained=(V2,),
    ),
    "reused-sequence": Trial(
        build=reused_sequence,
        rule="reused-sequence",
        explained=(V1, DRIVER, ("3.3.2", "librdkafka")),
        unexplained=(V2, OLD, JAVA_V1, ("4.4.0", "kafka-python")),
    ),
}


def played(
    path: Path,
    trial: Trial,
    kafka: str,
    client: str,
    changed: Row | None = None,
    settings: Row | None = None,
) -> str:
    """Return the word of the model about a trial, or one with a few things changed."""
    run = RunBuilder(path / "run", kafka=kafka, client=client, workload=TRANSACTIONS)
    run.leader(1, 0, [1, 2, 3])
    run.tick(3_000)
    row = trial.build(run, **(changed or {}))
    config = {**run.plan.broker_config, **(settings or {})}
    run.plan = msgspec.structs.replace(run.plan, broker_config=config)
    said = finding(run, **row)
    if said.verdict == "explained":
        assert trial.rule in {link.rule for link in said.because}
        assert any(trial.says in link.says for link in said.because)
    return said.verdict


CASES = [
    pytest.param(trial, kafka, client, word, id=f"{name}-{kafka}-{client}")
    for name, trial in TRIALS.items()
    for word, software in (("explained", trial.explained), ("unexplained", trial.unexplained))
    for kafka, client in software
]


@pytest.mark.parametrize(("trial", "kafka", "client", "word"), CASES)
def test_what_happens_in_transactions_is_explained_by_the_rules_of_release_and_client(
    tmp_path: Path, trial: Trial, kafka: str, client: str, word: str
) -> None:
    assert played(tmp_path, trial, kafka, client) == word


OTHER = {"source": "client:other"}
NEARLY: dict[str, dict[str, tuple[Row, ...]]] = {
    "commit-refused": {
        "unexplained": (
            *({"when": "before"}, {"when": "after"}, OTHER, {"api": "Produce"}),
            *({"side": "request"}, {"outcome": "ok"}),
        ),
    },
    "committed-in-part": {"unexplained": ({"offset": 1}, {"outcome": "ok"})},
    "late-end-txn": {
        "unexplained": ({"when": "before"}, {"when": "after"}, OTHER, {"api": "Produce"}),
    },
    "late-produce": {"unexplained": ({"offset": 0}, OTHER, {"wait_ms": -2_000})},
    "late-produce-that-hangs": {
        "unexplained": (
            *({"wait_ms": -2_000}, {"outcome": "info"}, {"outcome": "ok"}),
            *(OTHER, {"api": "EndTxn"}, {"partition": 1}),
        ),
    },
    "late-marker": {
        "explained": ({"kind": "G1a"},),
        "unexplained": tuple(
            {"kind": kind, **changed}
            for kind in ("lost-write", "G1a")
            for changed in ({"behind": False}, {"wait_ms": 300}, {"api": "EndTxn"})
        ),
    },
    "forgotten-first": {
        "explained": ({"kind": "repeated-sequence"},),
        "unexplained": tuple(
            {"kind": kind, **changed}
            for kind in ("G1a", "repeated-sequence")
            for changed in ({"late_ms": 1_500}, {"copy": "m0"})
        ),
    },
    "reused-sequence": {
        "explained": ({"outcome": "info"},),
        "unexplained": (
            *({"outcome": "ok"}, {"offset": 1}, {"process": "other"}, {"transactions": False}),
        ),
    },
}
"""The trials with something changed: too early or late, of another client, another request."""


@pytest.mark.parametrize(
    ("name", "changed", "word"),
    [
        (name, changed, word)
        for name, words in NEARLY.items()
        for word, changes in words.items()
        for changed in changes
    ],
)
def test_what_comes_near_to_it_is_explained_or_not(
    tmp_path: Path, name: str, changed: Row, word: str
) -> None:
    assert played(tmp_path, TRIALS[name], *TRIALS[name].explained[0], changed) == word


def test_a_broker_that_is_told_not_to_verify_appends_a_late_produce(tmp_path: Path) -> None:
    setting = {"transaction.partition.verification.enable": "false"}
    hangs = TRIALS["late-produce-that-hangs"]
    assert played(tmp_path, hangs, *V1, settings=setting) == "explained"


def test_every_switch_has_an_explanation_or_a_reason_why_none_is_needed() -> None:
    explaining = {switch for each in ALL for switch in each.licence.switches}
    assert explaining | NOT_EXPLAINING.keys() == EVERY_SWITCH
    assert not explaining & NOT_EXPLAINING.keys()
    assert all(reason.endswith(".") for reason in NOT_EXPLAINING.values())


def flipped(software: Software, switch: str) -> Software:
    """Return the software with one switch turned over."""
    if switch in SWITCHES:
        value = not getattr(software.rules, switch)
        return replace(software, rules=replace(software.rules, **{switch: value}))
    [rules] = software.transactions
    return replace(software, transactions=(replace(rules, **{switch: not getattr(rules, switch)}),))


def turned(observed: RunTraces, switch: str) -> RunTraces:
    """Return a run with one switch turned over in all of its software."""
    first = flipped(observed.software.first, switch)
    return replace(observed, software=replace(observed.software, first=first))


LOSSES = [each for each in ALL if each.name in EXPLAINED and each.licence.switches]


@pytest.mark.parametrize("rule", LOSSES, ids=lambda rule: rule.name)
def test_a_loss_is_not_explained_without_the_switch_that_licenses_it(
    rule: Explanation[Any],
) -> None:
    case = EXPLAINED[rule.name].record()
    assert rule.links(case)
    for switch in rule.licence.switches:
        assert not rule.links(replace(case, observed=turned(case.observed, switch)))


def test_every_explanation_by_a_switch_is_tried_with_and_without_it() -> None:
    tried = {trial.rule for trial in TRIALS.values()} | EXPLAINED.keys() | {"exact_epochs"}
    assert {each.name for each in ALL if each.licence.switches} <= tried


@pytest.mark.parametrize(
    ("name", "situation"),
    [
        ("counted-twice", replace(EXPLAINED["counted-twice"], kafka="4.4.0")),
        ("acks", replace(EXPLAINED["acks"], acks="all")),
        ("zombie", replace(EXPLAINED["zombie"], acks="all")),
        ("unclean", replace(EXPLAINED["unclean"], unclean=False)),
        *((name, replace(EXPLAINED[name], acks="1")) for name in ("fault", "retry", "unread")),
        ("shorter-log", replace(EXPLAINED["shorter-log"], acks="all")),
        ("partial-commit", replace(EXPLAINED["partial-commit"], client="java:3.3.2")),
        ("unanswered-commit", replace(EXPLAINED["unanswered-commit"], client="java:2.8.2")),
    ],
)
def test_a_loss_is_not_explained_without_the_fact_that_licenses_it(
    name: str, situation: Situation
) -> None:
    [rule] = [each for each in (*UNANSWERED, *SUCCESSION, *OTHERWISE) if each.name == name]
    assert rule.links(EXPLAINED[name].record())
    assert not rule.links(situation.record())
