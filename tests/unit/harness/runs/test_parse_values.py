"""What the command line takes and refuses."""

import pytest

from highwater.harness.base.errors import UsageError
from highwater.harness.runs import parse_values


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60s", 60), ("500ms", 0.5), ("2m", 120), ("1h", 3600), ("7", 7), ("1.5s", 1.5)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_values.duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5s", "5 days", "1e9s", "nan"])
def test_no_durations(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_values.duration(text)
    assert "60s" in refused.value.hint


def test_what_lasts_takes_some_time() -> None:
    assert parse_values.lasting("3m") == 180
    with pytest.raises(UsageError, match="no time at all"):
        parse_values.lasting("0s")


@pytest.mark.parametrize(("text", "records"), [("max", 0), ("500", 500), ("0.5", 0.5)])
def test_rates(text: str, records: float) -> None:
    assert parse_values.rate(text) == records


@pytest.mark.parametrize("text", ["", "fast", "0", "-1", "inf", "nan"])
def test_no_rates(text: str) -> None:
    with pytest.raises(UsageError):
        parse_values.rate(text)


@pytest.mark.parametrize(("text", "acks"), [("0", "0"), ("1", "1"), ("all", "all"), ("-1", "all")])
def test_acks(text: str, acks: str) -> None:
    assert parse_values.acks(text) == acks


@pytest.mark.parametrize("text", ["2", "none", "ALL", ""])
def test_no_acks(text: str) -> None:
    with pytest.raises(UsageError, match="acks"):
        parse_values.acks(text)


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("read_committed", ("read_committed",)),
        ("read_uncommitted, read_committed", ("read_uncommitted", "read_committed")),
    ],
)
def test_isolation(text: str, levels: tuple[str, ...]) -> None:
    assert parse_values.isolation(text) == levels


@pytest.mark.parametrize("text", ["", "none", "committed", "read_committed,dirty"])
def test_no_isolation(text: str) -> None:
    with pytest.raises(UsageError, match="isolation") as refused:
        parse_values.isolation(text)
    assert "read_uncommitted" in refused.value.hint


@pytest.mark.parametrize(("text", "seconds"), [("none", 0), ("5s", 5)])
def test_churn(text: str, seconds: float) -> None:
    assert parse_values.churn(text) == seconds


def test_names() -> None:
    assert parse_values.names("kill, pause") == ("kill", "pause")
    assert parse_values.names("none") == ()
    assert parse_values.names("") == ()


@pytest.mark.parametrize("text", ["", ",,,", " , "])
def test_a_list_of_no_faults_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names no fault") as refused:
        parse_values.nemesis(text)
    assert "none: a calm run" in refused.value.hint
    assert parse_values.nemesis("none") == ()
    assert parse_values.nemesis("kill, pause") == ("kill", "pause")


@pytest.mark.parametrize(
    "text", ["local", "local[*]", "local[2,3]", "yarn", "spark://h:7077", "k8s://https://h:6443"]
)
def test_masters(text: str) -> None:
    assert parse_values.master(text) == text


@pytest.mark.parametrize(
    "text", ["sc://host", "sc://host:15002", "sc://host:15002/;token=abc;use_ssl=true", None]
)
def test_servers(text: str | None) -> None:
    assert parse_values.remote(text) == text


@pytest.mark.parametrize("text", ["", "host:15002", "sc://", "spark://host:7077", "sc://h:p"])
def test_no_servers(text: str) -> None:
    with pytest.raises(UsageError, match="not a Spark Connect server"):
        parse_values.remote(text)


def test_settings_of_spark() -> None:
    texts = ["spark.a=1", "spark.b=x=y", "spark.c=", "spark.a=2"]
    assert parse_values.conf(texts) == {"spark.a": "2", "spark.b": "x=y", "spark.c": ""}


@pytest.mark.parametrize("text", ["", "spark.a", "=1", "spark a=1"])
def test_no_settings_of_spark(text: str) -> None:
    with pytest.raises(UsageError, match="sets nothing"):
        parse_values.conf([text])


def test_a_group_has_three_members_unless_it_says_so() -> None:
    assert parse_values.group(0, None) == {"subscribe": 0, "group_protocol": "classic"}
    assert parse_values.group(0, "consumer") == {"subscribe": 3, "group_protocol": "consumer"}
    assert parse_values.group(2, "classic") == {"subscribe": 2, "group_protocol": "classic"}
    with pytest.raises(UsageError, match="modern") as refused:
        parse_values.group(2, "modern")
    assert "KIP-848" in str(refused.value.hint)
