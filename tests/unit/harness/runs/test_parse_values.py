"""What the command line takes and refuses."""

from collections.abc import Callable
from typing import Any

import pytest

from highwater.harness.base.errors import UsageError
from highwater.harness.runs import parse_values as of

TAKEN: dict[Callable[[str], Any], dict[str, object]] = {
    of.duration: {"60s": 60, "500ms": 0.5, "2m": 120, "1h": 3600, "7": 7, "1.5s": 1.5},
    of.lasting: {"3m": 180},
    of.rate: {"max": 0, "500": 500, "0.5": 0.5},
    of.acks: {"0": "0", "1": "1", "all": "all", "-1": "all"},
    of.isolation: {
        "read_committed": ("read_committed",),
        "read_uncommitted, read_committed": ("read_uncommitted", "read_committed"),
    },
    of.churn: {"none": 0, "5s": 5},
    of.names: {"kill, pause": ("kill", "pause"), "none": (), "": ()},
    of.nemesis: {"kill, pause": ("kill", "pause"), "none": ()},
    of.master: {
        text: text
        for text in (
            *("local", "local[*]", "local[2,3]", "yarn", "spark://h:7077", "k8s://https://h:6443"),
        )
    },
    of.remote: {
        text: text
        for text in ("sc://host", "sc://host:15002", "sc://host:15002/;token=abc;use_ssl=true")
    },
}
REFUSED: dict[Callable[[str], Any], tuple[tuple[str, ...], str, str]] = {
    of.duration: (("", "soon", "-5s", "5 days", "1e9s", "nan"), "", "60s"),
    of.lasting: (("0s",), "is zero", ""),
    of.rate: (("", "fast", "0", "-1", "inf", "nan"), "", ""),
    of.acks: (("2", "none", "ALL", ""), "acks", ""),
    of.isolation: (
        ("", "none", "committed", "read_committed,dirty"),
        "isolation",
        "read_uncommitted",
    ),
    of.nemesis: (("", ",,,", " , "), "names no fault", "or write none"),
    of.remote: (
        ("", "host:15002", "sc://", "spark://host:7077", "sc://h:p"),
        "not a Spark Connect server",
        "",
    ),
    lambda text: of.conf([text]): (("", "spark.a", "=1", "spark a=1"), "is not KEY=VALUE", ""),
}
"""Of each kind of value: the texts, and words of the error and of its hint."""


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [(parse, text, value) for parse, texts in TAKEN.items() for text, value in texts.items()],
)
def test_what_is_taken(parse: Callable[[str], Any], text: str, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "says", "hint"),
    [(parse, text, says, hint) for parse, (texts, says, hint) in REFUSED.items() for text in texts],
)
def test_what_is_refused(parse: Callable[[str], Any], text: str, says: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(text)
    assert says in refused.value.message
    assert hint in refused.value.hint


def test_no_server_and_settings_of_spark() -> None:
    assert of.remote(None) is None
    texts = ["spark.a=1", "spark.b=x=y", "spark.c=", "spark.a=2"]
    assert of.conf(texts) == {"spark.a": "2", "spark.b": "x=y", "spark.c": ""}


def test_a_group_has_three_members_unless_it_says_so() -> None:
    assert of.group(0, None) == {"subscribe": 0, "group_protocol": "classic"}
    assert of.group(0, "consumer") == {"subscribe": 3, "group_protocol": "consumer"}
    assert of.group(2, "classic") == {"subscribe": 2, "group_protocol": "classic"}
    with pytest.raises(UsageError, match="modern") as refused:
        of.group(2, "modern")
    assert "KIP-848" in str(refused.value.hint)
