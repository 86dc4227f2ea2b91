"""``highwater check --jepsen``: what it prints, and with which code it ends."""

import json
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner, Result

from highwater.cli.app import app
from highwater.harness.base.errors import UsageError

LOST = """\
{:index 0, :time 0, :process 0, :type :invoke, :f :send, :value [[:send 3 20]]}
{:index 1, :time 1, :process 0, :type :ok, :f :send, :value [[:send 3 [0 20]]]}
{:index 2, :time 2, :process 0, :type :invoke, :f :send, :value [[:send 3 "two"]]}
{:index 3, :time 3, :process 0, :type :ok, :f :send, :value [[:send 3 [1 "two"]]]}
{:index 4, :time 4, :process 1, :type :invoke, :f :poll, :value [[:poll]]}
{:index 5, :time 5, :process 1, :type :ok, :f :poll, :value [[:poll {3 [[1 "two"]]}]]}
"""


def check(*words: str) -> Result:
    return CliRunner().invoke(app, ["check", *words])


@pytest.fixture
def history(tmp_path: Path) -> Path:
    path = tmp_path / "history.edn"
    path.write_text(LOST, "utf-8")
    return path


def verdict(history: Path, text: str) -> tuple[int, list[str], list[str]]:
    """Exit code, kinds of anomalies, and reasons."""
    history.write_text(text, "utf-8")
    result = check("--jepsen", str(history), "--json")
    told = json.loads(result.stdout)
    assert told["verdict"] == {0: "valid", 1: "invalid", 3: "unknown"}[result.exit_code]
    return result.exit_code, list(told["counts"]), told["reasons"]


@pytest.mark.slow
@pytest.mark.spark
def test_a_history_is_told_as_one_object(history: Path) -> None:
    result = check("--jepsen", str(history), "--json", "--all")
    assert result.exit_code == 1
    send = {"process": 0, "type": "ok", "f": "send", "mop": "send", "role": "writer"}
    poll = {"process": 1, "type": "ok", "f": "poll", "mop": "poll", "role": "max-read"}
    lost = {"kind": "lost-write", "key": 3, "value": 20, "offset": 0}
    seen = [
        {"index": 1, "key": 3, "offset": 0, "value": 20, **send},
        {"index": 5, "key": 3, "offset": 1, "value": '"two"', **poll},
    ]
    assert json.loads(result.stdout) == {
        "file": str(history),
        "verdict": "invalid",
        "reasons": [
            (
                "1 lost-write: a record was acknowledged and never read, although a reader read a "
                "later offset."
            )
        ],
        "operations": 3,
        "counts": {"lost-write": 1},
        "availability": None,
        "anomalies": [lost | {"witnesses": seen}],
    }


@pytest.mark.slow
@pytest.mark.spark
def test_what_was_cut_short_is_unknown_and_a_person_is_told_so(history: Path) -> None:
    history.write_text(LOST + LOST[:40], "utf-8")
    result = check("--jepsen", str(history))
    assert result.exit_code == 3
    assert "UNKNOWN" in result.stdout
    assert "The file ends within the operation on line 7" in result.stdout
    assert "lost-write" in result.stdout


READ: Final = """\
{:process 0, :type :invoke, :f :send, :value [[:send 3 1] [:send 3 2]]}
{:process 0, :type :ok, :f :send, :value [[:send 3 [0 1]] [:send 3 [1 2]]]}
{:process 1, :type :invoke, :f :poll, :value [[:poll]]}
{:process 1, :type :ok, :f :poll, :value [[:poll {3 [[0 1] [1 2]]}]]}
{:process 2, :type :invoke, :f :assign, :value [3], :seek-to-beginning? true}
{:process 2, :type :ok, :f :assign, :value [3], :seek-to-beginning? true}
{:process 2, :type :invoke, :f :poll, :value [[:poll]]}
"""
"""All is well until the last reader polls."""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("polled", "code"), [("{3 [[0 1] [1 2]]}", 0), ("{3 [[0 1]]}", 3), ("{}", 3)]
)
def test_what_the_last_reader_does_not_reach_is_unknown(
    history: Path, polled: str, code: int
) -> None:
    text = f"{READ}{{:process 2, :type :ok, :f :poll, :value [[:poll {polled}]]}}"
    found, kinds, reasons = verdict(history, text)
    assert (found, kinds) == (code, [])
    says = (
        "Key 3: offset 1 was known, but no reader that later called seek to the beginning reached"
        " it again"
    )
    assert [reason[: len(says)] for reason in reasons] == ([says] if code else [])


SEND: Final = "{:process 0, :type :invoke, :f :send, :value [[:send 3 1]]}\n"
FAILED: Final = "{:process 0, :type :fail, :f :send, :value [[:send 3 1]]}\n"
ACKNOWLEDGED: Final = "{:process 0, :type :ok, :f :send, :value [[:send 3 [0 1]]]}\n"
POLLED: Final = "{:process 1, :type :ok, :f :poll, :value [[:poll {}]]}\n"
UNPOLLED: Final = "{:process 1, :type :info, :f :poll, :value [[:poll]]}\n"
WRITTEN: Final = "{:process 2, :type :ok, :f :txn, :value [[:send 4 [0 1]]]}\n"
UNANSWERED: Final = "No send was acknowledged, so no guarantee was tested."
UNREAD: Final = "acknowledged, but no poll succeeded: no reader checked whether the records exist."


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "code", "kinds", "reason"),
    [
        (SEND, 3, [], UNANSWERED),
        (SEND + FAILED, 3, [], UNANSWERED),
        (POLLED, 3, [], UNANSWERED),
        (SEND + ACKNOWLEDGED, 3, ["unseen"], f"1 send was {UNREAD}"),
        (SEND + ACKNOWLEDGED + WRITTEN + UNPOLLED, 3, ["unseen"], f"2 sends were {UNREAD}"),
        (SEND + FAILED + POLLED.replace("{}", "{3 [[0 1]]}"), 1, ["G1a"], None),
        (SEND + ACKNOWLEDGED + POLLED, 1, ["unseen"], None),
        (SEND + ACKNOWLEDGED + POLLED.replace(":poll,", ":txn,"), 1, ["unseen"], None),
    ],
)
def test_a_promise_is_tested_by_an_acknowledgement_and_a_reader(
    history: Path, text: str, code: int, kinds: list[str], reason: str | None
) -> None:
    told = verdict(history, text)
    assert told[:2] == (code, kinds)
    assert reason is None or told[2] == [reason]


@pytest.mark.slow
@pytest.mark.spark
def test_what_nobody_read_is_untested_and_a_person_is_told_so(history: Path) -> None:
    history.write_text(SEND + ACKNOWLEDGED, "utf-8")
    result = check("--jepsen", str(history))
    assert result.exit_code == 3
    assert f"1 send was {UNREAD}" in result.stdout
    assert "untested" in result.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "no run and no history was named"),
        (("--all",), "no run and no history was named"),
        (("some-run", "--all"), "are only for --jepsen"),
        (("some-run", "--jepsen", "history.edn"), "cannot be judged together"),
        (("--jepsen", "nowhere.edn"), "nowhere.edn cannot be read: No such file"),
    ],
)
def test_what_cannot_be_checked_is_said(words: tuple[str, ...], says: str) -> None:
    result = check(*words)
    assert isinstance(result.exception, UsageError)
    assert says in result.exception.message


SEEN: Final = """\
{:index 0, :process 0, :type :invoke, :f :assign, :value ["7"]}
{:index 1, :process 0, :type :ok, :f :assign, :value ["7"]}
{:index 2, :process 1, :type :invoke, :f :txn, :value [[:send "7" 1] [:send "7" 2]]}
{:index 3, :process 1, :type :ok, :f :txn, :value [[:send "7" [0 1]] [:send "7" [1 2]]]}
{:index 4, :process 0, :type :invoke, :f :poll, :value [[:poll]]}
{:index 5, :process 0, :type :ok, :f :poll, :value [[:poll {"7" [[0 1]]}]]}
{:index 6, :process 2, :type :invoke, :f :assign, :value ["8"]}
{:index 7, :process 2, :type :ok, :f :assign, :value ["8"]}
{:index 8, :process 0, :type :invoke, :f :poll, :value [[:poll]]}
{:index 9, :process 2, :type :invoke, :f :poll, :value [[:poll]]}
"""
FINAL: Final = "{:index 10, :process 0, :type :ok, :f :poll, :value [[:poll {}]]}\n"
OTHER: Final = "{:index 11, :process 2, :type :ok, :f :poll, :value [[:poll {}]]}\n"
READ_ON: Final = FINAL.replace("{}", '{"7" [[1 2]]}')


UNTOLD: Final = "[[:poll]]"
"""Its other forms are in unit/checkers/jepsen/test_history_file.py."""


@pytest.mark.slow
@pytest.mark.spark
def test_a_poll_without_a_result_is_no_empty_one(history: Path) -> None:
    assert verdict(history, SEEN + FINAL + OTHER)[:2] == (1, ["unseen"])
    polled = FINAL.replace("[[:poll {}]]", UNTOLD)
    code, kinds, (reason,) = verdict(history, SEEN + polled + OTHER)
    assert (code, kinds) == (3, [])
    assert reason.startswith("1 operation that succeeded polled, but the history does not list the")
    assert "1 unseen not counted" in reason


@pytest.mark.slow
@pytest.mark.spark
def test_what_such_a_poll_cannot_have_read_stays_found(history: Path) -> None:
    untold = OTHER.replace("[[:poll {}]]", UNTOLD)
    code, kinds, reasons = verdict(history, SEEN + FINAL + untold)
    assert (code, kinds) == (1, ["unseen"]), "its client was assigned to another key"
    assert len(reasons) == 2
    gone = SEEN.replace('{"7" [[0 1]]}', '{"7" [[1 2]]}')
    code, kinds, _ = verdict(history, gone + FINAL.replace("[[:poll {}]]", UNTOLD) + OTHER)
    assert (code, kinds) == (1, ["lost-write"]), "its client had read further"
    assert verdict(history, SEEN + READ_ON + untold)[0] == 3, "nothing is wrong, and not all known"


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("sent", ['[[:send "7" [0 1]] nil]', "nil"])
@pytest.mark.parametrize("kind", ["ok", "info", "fail"])
def test_a_send_without_a_result_sent_what_it_was_asked_to(
    history: Path, sent: str, kind: str
) -> None:
    told = '[[:send "7" [0 1]] [:send "7" [1 2]]]'
    less = SEEN.replace(told, sent).replace(":ok, :f :txn", f":{kind}, :f :txn")
    code, kinds, reasons = verdict(history, less + READ_ON + OTHER)
    if kind == "ok":
        assert (code, kinds) == (3, [])
        assert "1 operation that succeeded did not return the offset of each record" in reasons[0]
    else:
        assert (code, kinds) == ((1, ["G1a"]) if kind == "fail" else (3, []))
    if kind == "ok":
        assert verdict(history, less + FINAL + OTHER)[:2] == (1, ["unseen"])


@pytest.mark.slow
@pytest.mark.spark
def test_a_record_may_be_of_a_send_that_does_not_say_what(history: Path) -> None:
    alone = "\n".join(line for line in SEEN.splitlines() if ":index 2," not in line) + "\n"
    told = '[[:send "7" [0 1]] [:send "7" [1 2]]]'
    code, kinds, reasons = verdict(history, alone.replace(told, "nil") + READ_ON + OTHER)
    assert (code, kinds) == (3, [])
    assert any("sent records, but the history does not list them" in reason for reason in reasons)
    assert verdict(history, alone.replace(told, "[]") + READ_ON + OTHER)[1] == ["phantom"]


WHOLE: Final = POLLED.replace("{}", "{3 [[0 1]]}")
ASKED: Final = ACKNOWLEDGED.replace(":ok", ":invoke").replace("[0 1]", "1")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("sent", ["{:offset 0 :value 1}", "0", ":ack", "[-1 1]", "[0 nil]"])
def test_a_send_whose_result_has_another_form_is_what_was_asked_for(
    history: Path, sent: str
) -> None:
    found, kinds, reasons = verdict(history, ASKED + ACKNOWLEDGED.replace("[0 1]", sent) + WHOLE)
    assert (found, kinds) == (3, [])
    assert "did not return the offset of each record" in reasons[0]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "operation",
    [
        "{:process 5, :type :invoke, :f :send, :value nil}",
        "{:process 5, :type :invoke, :f :txn, :value [[:poll] nil]}",
        "{:process 5, :type :info, :f :crash, :value [[:send 3 2]]}",
        "{:process 5, :type :invoke, :f :batch, :value [[:send 3 2]]}",
    ],
)
def test_what_may_have_been_sent_is_no_phantom(history: Path, operation: str) -> None:
    read = POLLED.replace("{}", "{3 [[0 1] [1 2]]}")
    text = f"{ASKED}{ACKNOWLEDGED}{operation}\n{read}"
    found, kinds, reasons = verdict(history, text)
    assert (found, kinds) == (3, [])
    assert "sent records, but the history does not list them" in reasons[0]


@pytest.mark.slow
@pytest.mark.spark
def test_an_operation_of_another_name_that_polls_may_have_read_all(history: Path) -> None:
    text = ASKED + ACKNOWLEDGED + WHOLE.replace(":f :poll", ":f :final-poll") + POLLED
    assert verdict(history, text)[:2] == (3, [])
    crash = "{:process 1, :type :info, :f :crash, :value nil}\n"
    assert verdict(history, ASKED + ACKNOWLEDGED + crash + WHOLE)[:2] == (0, [])
