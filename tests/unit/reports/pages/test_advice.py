"""The page of advice: what applies comes first, and every text is escaped."""

from dataclasses import replace
from pathlib import Path

from highwater.checkers.hazards.catalogue import HAZARDS
from highwater.checkers.hazards.evaluate import evaluate, headline
from highwater.harness.releases.cluster_facts import ELR_FEATURE
from highwater.reports.pages.advice import write
from tests.unit.checkers.hazards.clusters import cluster, topic


def test_what_applies_is_told_in_full_and_the_rest_in_a_table(tmp_path: Path) -> None:
    facts = replace(cluster("4.4.0", topic("<b>events")), unseen=("broker 2: <i>no route</i>",))
    every = evaluate(facts, {"acks": "all", "power": "separate"})
    page = write(facts, every, ["A cluster."], tmp_path / "advice.html").read_text("utf-8")
    assert f"3 of {len(HAZARDS)} hazards apply to this cluster." in page
    assert "&lt;b&gt;events" in page
    assert "<b>events" not in page
    assert "&lt;i&gt;no route" in page
    assert "--kafka 4.4.0</code>" in page
    assert "min.insync.replicas=2" in page
    assert "<script" not in page


def test_headlines_have_denominators() -> None:
    features = {ELR_FEATURE: 1, "kraft.version": 1}
    small = topic(replicas=2, settings={"min.insync.replicas": "1"})
    safe = cluster("4.4.0", small, features=features)
    said = {"acks": "all", "power": "safe", "client": "librdkafka", "record-age": "60"}
    said |= {"disks": "network", "recreated": "no"}
    assert (
        headline(evaluate(safe, said)) == f"None of {len(HAZARDS)} hazards applies to this cluster."
    )
    unknown = headline(evaluate(safe, {"power": "safe"}))
    assert unknown == f"More facts are needed to judge 12 of {len(HAZARDS)} hazards."


def test_what_can_be_shown_on_the_cluster_itself_has_its_command(tmp_path: Path) -> None:
    every = evaluate(cluster("4.4.0"), {"acks": "1", "power": "separate"})
    page = write(cluster("4.4.0"), every, (), tmp_path / "advice.html").read_text("utf-8")
    assert page.count("highwater run --inventory FILE --acks 1 --nemesis") == 1
