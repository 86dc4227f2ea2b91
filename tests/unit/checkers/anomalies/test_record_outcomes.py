"""What became of records, by their rows, and the ledgers."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from highwater.checkers.anomalies import record_outcomes
from highwater.checkers.history import partition_ledgers
from highwater.checkers.history.partition_ledgers import PartitionLedger
from tests.support.plain_records import Plain
from tests.support.seeds import seeds
from tests.support.small_views import (
    TOPIC,
    anomalies,
    numbered,
    random_rows,
    references,
    shuffled,
    view_of,
)

Row = dict[str, Any]


def case(partitions: int) -> Any:  # noqa: ANN401 - all that is asked of a case
    topic = SimpleNamespace(name=TOPIC, partitions=partitions)
    return SimpleNamespace(key="r0", plan=SimpleNamespace(topic=topic), compacted=False)


def history(*words: str) -> list[Row]:
    """Operations: who, phase, ``partition:value@offset``, outcome, acks; ``?`` is null."""
    rows: list[Row] = []
    for line in words:
        process, phase, record, *more = line.split()
        place, offset = record.split("@")
        partition, value = place.split(":")
        row: Row = {"process": process, "phase": phase, "value": value, "at": len(rows)}
        row |= {"partition": None if partition == "?" else int(partition), "invoke_ns": len(rows)}
        row |= {"offset": None if offset == "?" else int(offset), "topic": TOPIC}
        row["kind"] = "read" if process[0] == "c" else "send"
        row["outcome"], row["acks"] = [*more, "ok", None][:2] if len(more) < 2 else more
        rows.append(row)
    return numbered(rows)


def told(rows: list[Row], partitions: int = 2) -> list[tuple[Any, ...]]:
    view, cases = view_of(rows), [case(partitions)]
    found = anomalies(
        view, [record_outcomes.decided(view, cases, partition_ledgers.ledgers(view, cases))]
    )
    names = ("kind", "partition", "value", "offset", "acks")
    return sorted(
        (
            *(each[name] for name in names),
            [(copy["offset"], copy["note"]) for copy in each["copies"] or ()],
        )
        for each in found
    )


FENCED = ("fence final 0:f@9", "c final 0:f@9")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("p run 0:a@1", "c final 0:a@1"), []),
        # Whether the final read came as far.
        (("p run 0:a@1", "p run 0:b@2", "c final 0:b@2"), [("lost-write", 0, "a", 1, None, [])]),
        (("p run 0:a@3", "p run 0:b@2", "c final 0:b@2"), [("unseen", 0, "a", 3, None, [])]),
        (("p run 0:a@30", "c run 0:a@30", *FENCED), [("lost-write", 0, "a", 30, None, [])]),
        # Without an offset: the whole partition, and where a reader received it before.
        (("p run 0:a@?", "p run 0:b@2", "c final 0:b@2"), [("unseen", 0, "a", None, None, [])]),
        (("p run 0:a@?", *FENCED), [("lost-write", 0, "a", None, None, [])]),
        (
            ("p run 0:a@?", "c run 0:a@5", "c run 0:a@4", *FENCED),
            [("lost-write", 0, "a", None, None, [(4, "a reader received it")])],
        ),
        # Nothing was promised of what was not acknowledged, and the fence is not judged.
        (("p run 0:a@1 info", "p run 0:b@0 fail", *FENCED), []),
        (("p run 0:b@10", "fence final 0:f@9", "c final 0:b@10"), []),
        # The greatest offset and acks; those of sends that were acknowledged.
        (
            ("p run 0:a@1 ok 1", "p run 0:a@3 ok all", "p run 0:a@4 info z", *FENCED),
            [("lost-write", 0, "a", 4, "all", [])],
        ),
        # At several offsets, whatever was acknowledged.
        (
            ("p run 0:a@1 info 1", "c final 0:a@5", "c final 0:a@4", "c final 0:a@7"),
            [("duplicate", 0, "a", 4, "1", [(4, None), (7, None)])],
        ),
        (("p run 0:a@1", "c final 0:a@1", "c run 0:a@4"), []),
        # A partition that nobody was told: found in any, or lost once all are read.
        (("p run ?:a@?", "c final 1:a@5"), []),
        (("p run ?:a@?", *FENCED), [("unseen", None, "a", None, None, [])]),
        (
            ("p run ?:a@?", *FENCED, "fence final 1:f@9", "c final 1:f@9"),
            [("lost-write", None, "a", None, None, [])],
        ),
    ],
)
def test_what_became_of_records(lines: tuple[str, ...], expected: list[tuple[Any, ...]]) -> None:
    assert told(history(*lines)) == expected


def test_partitions_that_the_topic_does_not_have_are_in_no_books() -> None:
    rows = history("p run 7:a@1", "p run 7:b@2", "c final 7:b@2")
    assert told(rows) == []
    assert partition_ledgers.ledgers(view_of(rows), [case(2)]) == []


def test_books_and_ledger() -> None:
    rows = history(
        *("p run 0:a@1", "p run 0:b@2", "p run 0:c@3 fail", "p run 0:d@4 info", "c final 0:b@2"),
        *("p run ?:e@?", "c final 1:e@0"),
    )
    ledgers = partition_ledgers.ledgers(view_of(rows), [case(2)])
    of_zero = next(each for each in ledgers if each.partition == 0)
    counted: Row = {
        "sent": 4,
        "acknowledged": 2,
        "failed": 1,
        "unknown": 1,
        "read": 1,
        "missing": 1,
    }
    assert of_zero == PartitionLedger(run="r0", topic=TOPIC, partition=0, last=2, **counted)
    ledger = record_outcomes.ledger(
        ledgers, {("r0", "lost-write"): 1, ("other", "unseen"): 5}, {"r0": 1}
    )
    counts = {"sent": 5, "acknowledged": 3, "failed": 1, "unknown": 1}
    assert ledger == {"r0": {**counts, "read": 1, "lost": 1, "unseen": 0, "replaced": 1}}


@pytest.mark.parametrize("seed", seeds(300))
def test_as_plain_loops_decide(seed: int) -> None:
    operations = random_rows(seed)
    cases = [case(1 + seed % 2)]
    for rows in (operations, shuffled(pa.array(operations), seed).to_pylist()):
        view = view_of(rows)
        ledgers = partition_ledgers.ledgers(view, cases)
        table = partition_ledgers.limits(view.names, cases, ledgers).to_pylist()
        limits = {row["slot"]: (row["reach"], row["complete"]) for row in table}
        found = references(record_outcomes.decided(view, cases, ledgers).table())
        asked = any(each.missing or each.again for each in ledgers)
        assert found == (Plain(operations).fates(limits) if asked else [])
