"""Jepsen's histories, read from EDN into our operations."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from highwater.checkers.jepsen.history_file import History, Operation, Read
from highwater.harness.base.errors import UsageError

COLUMNS = ("process", "kind", "outcome", "topic", "partition", "offset", "value")
SEND = "{:type :invoke, :f :send, :value [[:send 3 7]], :time 5, :process 0, :index 0}"
SENT = "{:type :ok, :f :send, :value [[:send 3 [17 7]]], :time 9, :process 0, :index 1}"


def read(tmp_path: Path, text: str) -> tuple[list[dict[str, Any]], Read]:
    path = tmp_path / "history.edn"
    path.write_text(text, "utf-8")
    found = History(path).to_parquet(tmp_path / "out.parquet")
    return pq.read_table(tmp_path / "out.parquet").to_pylist(), found


def rows(tmp_path: Path, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in COLUMNS) for row in read(tmp_path, text)[0]]


def test_a_send_is_a_row_with_the_interval_of_both_its_halves(tmp_path: Path) -> None:
    (row,), found = read(tmp_path, f"{SEND}\n{SENT}\n")
    assert tuple(row[name] for name in COLUMNS) == ("0", "send", "ok", "jepsen", 3, 17, "7")
    assert (row["invoke_ns"], row["complete_ns"], row["op"]) == (5, 9, len(SEND) + 1)
    assert found == Read(operations=1, rows=1)


def test_a_poll_is_a_row_for_each_record_in_the_order_of_the_poll(tmp_path: Path) -> None:
    text = '{:type :ok :f :poll :process 1 :value [[:poll {0 [[2 a] [1 :b]], 5 [[nil "c d"]]}]]}'
    assert rows(tmp_path, text) == [
        ("1", "read", "ok", "jepsen", 0, 2, "a"),
        ("1", "read", "ok", "jepsen", 0, 1, ":b"),
        ("1", "read", "ok", "jepsen", 5, None, '"c d"'),
    ]


def test_a_transaction_keeps_the_order_of_its_micro_operations(tmp_path: Path) -> None:
    text = (
        "{:type :info :f :txn :process 1 :value [[:send 0 1] [:poll {0 [[0 9]]}] [:send 0 [4 2]]]}"
    )
    found = rows(tmp_path, text)
    assert [(row[1], row[2], row[5], row[6]) for row in found] == [
        ("send", "info", None, "1"),
        ("read", "info", 0, "9"),
        ("send", "info", 4, "2"),
    ]


def test_an_operation_that_never_completed_may_have_happened(tmp_path: Path) -> None:
    ((row,), found) = read(tmp_path, SEND)
    assert (row["outcome"], row["offset"], row["value"]) == ("info", None, "7")
    assert row["complete_ns"] is None
    assert found.operations == 1


def test_a_client_that_begins_anew_left_its_last_operation_open(tmp_path: Path) -> None:
    again = SEND.replace("7", "8").replace(":index 0", ":index 1")
    found = rows(tmp_path, "\n".join((SEND, again, SENT.replace("7]", "8]"))))
    assert sorted((row[2], row[6]) for row in found) == [("info", "7"), ("ok", "8")]


def test_assignments_seeks_and_rebalances_move_a_reader(tmp_path: Path) -> None:
    text = """
    {:type :ok :f :assign :process 0 :value [1 2] :seek-to-beginning? true}
    {:type :info :f :subscribe :process 0 :value []}
    {:type :ok :f :poll :process 0 :value [[:poll {1 [[0 5]]}]]
     :rebalance-log [{:type :assigned :keys [1 2]} {:type :revoked, :keys []}]}
    """
    assert [(row[1], row[2], row[4]) for row in rows(tmp_path, text)] == [
        ("assign", "ok", 1),
        ("assign", "ok", 2),
        ("seek", "ok", 1),
        ("seek", "ok", 2),
        ("subscribe", "info", None),
        ("rebalance", "ok", 1),
        ("rebalance", "ok", 2),
        ("read", "ok", 1),
    ]


def test_what_no_client_did_is_passed_over(tmp_path: Path) -> None:
    others = """
    {:type :info :f :kill :process :nemesis :value {:n1 [:a "}" \\} ] } :error "\\"]"} ; a comment }
    {:type :info :f :crash :process 4 :value nil}
    {:type :ok :f :debug-topic-partitions :process 5 :value [1 2]}
    {:type :fail :f :send :process 6 :value nil}
    """
    assert len(rows(tmp_path, others + SENT)) == 1


@pytest.mark.parametrize(
    "text",
    [
        f"[{SEND}\n {SENT}]",
        f"({SEND} {SENT})\n\n",
        f"#jepsen.history.Op{SEND}\n#jepsen.history.Op {SENT}",
        f"\n;; of a test\n{SEND},,{SENT}",
        SEND + SENT.replace("[[:send 3 [17 7]]]", "((:send 3 [17, 7 extra]))"),
    ],
)
def test_a_history_may_be_written_in_several_ways(tmp_path: Path, text: str) -> None:
    (row,), _ = read(tmp_path, text)
    assert (row["offset"], row["value"], row["invoke_ns"]) == (17, "7", 5)


def test_a_key_that_is_no_number_is_a_topic_of_its_own(tmp_path: Path) -> None:
    text = (
        '{:type :ok :f :send :process 0 :value [[:send :x [0 1]] [:send "ÿ" [0 1]] [:send -1 2]]}'
    )
    assert [row[3:5] for row in rows(tmp_path, text)] == [(":x", 0), ('"ÿ"', 0), ("-1", 0)]


def test_times_grow_with_the_history(tmp_path: Path) -> None:
    ends = [SENT.replace(":time 9", f":time {time}") for time in (7, 7, 3, 50, "nil")]
    found, _ = read(tmp_path, "\n".join(ends))
    assert [row["complete_ns"] for row in found] == [7, 8, 9, 50, 51]


def test_an_operation_is_found_again_by_its_byte(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(f"{SEND}\n{SENT}\n")
    wanted = Operation(index=1, process=0, type="ok", f="send")
    assert History(path).operation(len(SEND) + 1) == wanted


def test_the_folder_of_a_run_will_do(tmp_path: Path) -> None:
    (tmp_path / "history.edn").write_text(SENT)
    assert History(tmp_path).path == tmp_path / "history.edn"


@pytest.mark.parametrize("cut", range(len(SENT)))
def test_a_file_cut_anywhere_in_an_operation_says_where(tmp_path: Path, cut: int) -> None:
    found, told = read(tmp_path, f"{SENT}\n{SENT[:cut]}")
    assert len(found) == 1
    assert told.cut == ("" if cut == 0 else CUT_SHORT)


CUT_SHORT = (
    f"The file ends within the operation on line 2 (byte {len(SENT) + 1}):"
    " only earlier operations were judged."
)


def test_a_vector_that_does_not_end_is_said(tmp_path: Path) -> None:
    assert "vector" in read(tmp_path, f"[{SENT}\n")[1].cut


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("  \n;nothing", "has no :send, :poll or :txn"),
        ("{:type :info :f :kill :process :nemesis}", "has no :send, :poll or :txn"),
        (
            SENT[:30],
            "has no :send, :poll or :txn of a client. The file ends within the operation on",
        ),
        ("once upon a time", "line 1 (byte 0): 'once upon a time' is not an operation"),
        ('{"a": 1}', "line 1 (byte 0): '{\"a\": 1}' is not an operation"),
        ("{:valid? true}", "is not an operation"),
        (f"{SENT}\n{{:type :ok}}", "line 2"),
        (f"{SENT}\n]", f"line 2 (byte {len(SENT) + 1}): ']' is not EDN"),
        ("{:type :maybe :f :send}", "must be :invoke, :ok, :fail or :info"),
        ("{:type :ok :f :txn :process 0 :value [[:append 3 4]]}", "is not a micro-operation"),
        ("{:type :ok :f :send :process 0 :value [[:send]]}", "is not a micro-operation"),
        ("{:type :ok :f :send :process 0 :value [[:send 1 [2]]]}", "is not a micro-operation"),
        ("{:type :ok :f :send :process 0 :value [[]]}", "is not a micro-operation"),
        ("{:type :ok :f :send :process 0 :value [7]}", "is not a micro-operation"),
        ("{:type :ok :f :send #_ :poll :process 0}", "metadata, or a discarded form"),
        ("^{:a 1} {:type :ok}", "is not an operation"),
    ],
)
def test_what_is_no_history_is_refused_in_words(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        read(tmp_path, text)
    assert says in error.value.message
    assert "jepsen.tests.kafka" in error.value.hint


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        History(tmp_path / "nowhere.edn")
    (tmp_path / "history.edn").write_bytes(
        SENT.replace("7]", '"\udcff"]').encode(errors="surrogateescape")
    )
    with pytest.raises(UsageError, match="not UTF-8"):
        History(tmp_path).to_parquet(tmp_path / "out.parquet")


@pytest.mark.parametrize(
    "value", ["[[:poll nil]]", '[[:poll {"7" nil}]]', "[nil]", "nil", "[]", ":timeout", None]
)
def test_a_poll_without_a_result_is_known_in_every_form(tmp_path: Path, value: str | None) -> None:
    def told(value: str | None) -> tuple[list[dict[str, Any]], Read]:
        polled = "" if value is None else f", :value {value}"
        begun = "{:type :invoke, :f :poll, :value [[:poll]], :process 1}"
        return read(
            tmp_path, f"{SEND}\n{SENT}\n{begun}\n{{:type :ok, :f :poll, :process 1{polled}}}"
        )

    assert told(value) == told("[[:poll]]") != told("[[:poll {}]]")


@pytest.mark.parametrize(
    "value",
    [
        '[[:send "7" 1] [:send "7" 2]]',
        '[[:send "7" [nil 1]] [:send "7" [nil 2]]]',
        '[[:send "7" nil] [:send "7" [1 2]]]',
        '[[:send "7" [0 1]] nil]',
        '[[:send "7" [0 1]]]',
        "[]",
        "nil",
    ],
)
@pytest.mark.parametrize("kind", ["ok", "info", "fail"])
def test_a_send_without_a_result_sent_what_it_was_asked_to(
    tmp_path: Path, value: str, kind: str
) -> None:
    begun = '{:type :invoke, :f :txn, :value [[:send "7" 1] [:send "7" 2]], :process 1}'
    found, told = read(tmp_path, f"{begun}\n{{:type :{kind}, :f :txn, :value {value}, :process 1}}")
    assert [(row["kind"], row["outcome"], row["value"]) for row in found] == [
        ("send", kind, name) for name in ("1", "2")
    ]
    assert bool(told.untold.offsets) == (kind == "ok")
