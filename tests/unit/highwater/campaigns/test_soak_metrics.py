"""A soak's counts for Prometheus, read again by its own library."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from highwater.campaigns.soak_metrics import write_metrics
from tests.unit.highwater.campaigns.test_soak import row


def samples(path: Path) -> dict[tuple[str, frozenset[str]], float]:
    text = path.read_text("utf-8")
    return {
        (sample.name, frozenset(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.endswith("_total")
    }


def test_rows_are_summed_by_release(tmp_path: Path) -> None:
    path = tmp_path / "metrics.prom"
    rows = [
        row(0),
        row(1, state="explained", lost=3, counts={"lost-write": 3}),
        row(2, kafka="0.10.2.2", state="failed", counted=False, acknowledged=900, lost=4),
    ]
    write_metrics(path, rows)
    write_metrics(path, rows)  # again: as after every run
    found = samples(path)
    old, new = "0.10.2.2", rows[0].kafka
    assert found["highwater_soak_runs_total", frozenset({new, "kept"})] == 1
    assert found["highwater_soak_runs_total", frozenset({new, "explained"})] == 1
    assert found["highwater_soak_runs_total", frozenset({new, "unexplained"})] == 0
    assert found["highwater_soak_lost_records_total", frozenset({new})] == 3
    assert (
        found["highwater_soak_acknowledged_records_total", frozenset({new})]
        == 2 * rows[0].acknowledged
    )
    assert (
        "highwater_soak_lost_records_total",
        frozenset({old}),
    ) not in found  # not counted is not zero
    assert found["highwater_soak_anomalies_total", frozenset({new, "lost-write"})] == 3
    assert found["highwater_soak_faults_total", frozenset({new, "kill"})] == 4
