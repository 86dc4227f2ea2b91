import itertools
from typing import Any

import msgspec
import pytest

from highwater.checkers.core.anomaly_kinds import OF_PROGRAMS
from highwater.checkers.policy import decide, promised
from highwater.checkers.verdicts import _out_of_place
from highwater.harness.runs.plan import Guarantee, Plan, ProgramPlan, Topic, Workload
from highwater.harness.runs.steps import FaultStep

KINDS = ("lost-write", "unseen", "divergence", "duplicate", "corrupt")


def plan(
    *, acks: str = "all", unclean: bool = False, idempotence: bool = False, least: int = 1
) -> Plan:
    settings: dict[str, Any] = {"acks": acks, "idempotence": idempotence}
    topic = Topic(unclean_leader_election=unclean, min_insync_replicas=least)
    return Plan(kafka="4.3.1", topic=topic, workload=Workload(**settings))


@pytest.mark.parametrize(
    ("acks", "unclean", "faults", "breaks"),
    [
        ("0", False, 0, False),
        ("0", False, 3, False),
        ("0", True, 3, False),
        ("1", False, 0, True),
        ("1", False, 1, False),
        ("1", True, 0, True),
        ("1", True, 1, False),
        ("all", False, 0, True),
        ("all", False, 9, True),
        ("all", True, 0, True),
        ("all", True, 1, False),
    ],
)
def test_what_a_lost_record_breaks(acks: str, unclean: bool, faults: int, breaks: bool) -> None:
    promise = promised(plan(acks=acks, unclean=unclean), faults=faults)
    assert ("lost-write" in promise.breaking) is breaks


@pytest.mark.parametrize(
    ("idempotence", "lost", "says"),
    [
        (True, 0, ", but of its idempotent producers' records 2 are in the log twice"),
        (True, 1, ", and of its idempotent producers' records 2 are in the log twice"),
        (False, 0, ""),
    ],
)
def test_a_headline_says_what_idempotent_producers_did_not_keep(
    idempotence: bool, lost: int, says: str
) -> None:
    promise = promised(plan(idempotence=idempotence), faults=1)
    assert _out_of_place({"lost-write": lost, "duplicate": 2}, promise) == says


@pytest.mark.parametrize(
    ("guarantee", "breaking"),
    [
        ("at-least-once", {"lost-input", "half-input", "lost-output"}),
        ("at-most-once", {"doubled-input", "repeated-input", "doubled-output"}),
        (
            "exactly-once",
            {"lost-input", "half-input", "lost-output", "doubled-output"}
            | {"doubled-input", "repeated-input"},
        ),
    ],
)
def test_what_a_program_promises(guarantee: Guarantee, breaking: set[str]) -> None:
    program = ProgramPlan(command=("service",), guarantee=guarantee)
    promise = promised(msgspec.structs.replace(plan(), program=program), faults=1)
    breaking |= {"strange-output", "aborted-input"}
    assert promise.breaking & OF_PROGRAMS == breaking
    ordered = msgspec.structs.replace(program, ordered=True)
    promise = promised(msgspec.structs.replace(plan(), program=ordered), faults=1)
    assert promise.breaking & OF_PROGRAMS == breaking | {"overtaken-input"}
    assert guarantee.replace("-", " ") in promise.says
    assert not promised(plan(), faults=1).breaking & OF_PROGRAMS


def test_inputs_that_were_not_reached_make_a_verdict_unknown_unless_one_is_lost() -> None:
    program = ProgramPlan(command=("service",))
    promise = promised(msgspec.structs.replace(plan(), program=program), faults=1)
    assert decide(promise, {"unreached-input": 2}, unjudged=[])[0] == "unknown"
    assert decide(promise, {"unreached-input": 2, "lost-input": 1}, unjudged=[])[0] == "invalid"


@pytest.mark.parametrize("least", [1, 2, 3])
def test_min_insync_replicas_changes_the_words_and_not_the_promise(least: int) -> None:
    promise = promised(plan(least=least), faults=2)
    assert "lost-write" in promise.breaking
    assert f"min.insync.replicas={least}" in promise.says


@pytest.mark.parametrize("idempotence", [False, True])
def test_duplicates_break_only_idempotence(idempotence: bool) -> None:
    promise = promised(plan(idempotence=idempotence), faults=1)
    assert ("duplicate" in promise.breaking) is idempotence


@pytest.mark.parametrize(
    ("acks", "unclean", "idempotence", "faults"),
    list(itertools.product(("0", "1", "all"), (False, True), (False, True), (0, 1))),
)
def test_under_every_setting(acks: str, unclean: bool, idempotence: bool, faults: int) -> None:
    promise = promised(plan(acks=acks, unclean=unclean, idempotence=idempotence), faults=faults)
    assert {"divergence", "corrupt"} <= promise.breaking
    assert "unseen" not in promise.breaking
    assert promise.says.endswith(".")
    for kind in KINDS:
        word, reasons = decide(promise, {kind: 2}, unjudged=())
        expected = "invalid" if kind in promise.breaking else "valid"
        assert word == ("unknown" if kind == "unseen" else expected)
        assert len(reasons) == 1


def test_what_could_not_be_judged_outweighs_a_broken_promise() -> None:
    promise = promised(plan(), faults=1)
    word, reasons = decide(promise, {"lost-write": 1}, unjudged=("The run was cut short.",))
    assert word == "unknown"
    assert reasons == ("The run was cut short.", "1 acknowledged record was lost.")


def test_a_broken_promise_outweighs_unseen_records() -> None:
    word, reasons = decide(promised(plan(), faults=1), {"lost-write": 2, "unseen": 1}, unjudged=())
    assert word == "invalid"
    assert len(reasons) == 2


def test_nothing_found_is_valid_without_reasons() -> None:
    assert decide(promised(plan(), faults=1), {}, unjudged=()) == ("valid", ())


def test_controllers_that_come_back_empty_promise_nothing() -> None:
    kinds = {"metadata-divergence", "lost-decision"}
    loss = FaultStep(fault="controller-disk-loss", at_s=1.0)
    assert kinds <= promised(plan(), faults=1).breaking
    for words in ({"nemesis": ("kill", "controller-disk-loss@follower=2")}, {"steps": (loss,)}):
        emptied = msgspec.structs.replace(plan(), **words)
        assert not kinds & promised(emptied, faults=1).breaking


@pytest.mark.parametrize("transactions", [False, True])
def test_transactions_are_promised_to_end(transactions: bool) -> None:
    workload = Workload(idempotence=True, transactions=transactions)
    says = promised(Plan(kafka="4.4.0", workload=workload), faults=0).says
    assert ("every transaction ends" in says) == transactions
    assert says.endswith("; replicas never disagree.")
