"""The counts of a soak for Prometheus, in a file for node_exporter's textfile collector."""

from collections.abc import Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, write_to_textfile

from highwater.campaigns.soak_results import STATES, SoakRow


def write_metrics(path: Path, rows: Iterable[SoakRow]) -> None:
    """Write the sums over a soak's runs. The file is replaced as a whole."""
    registry = CollectorRegistry()

    def counter(name: str, about: str, *labels: str) -> Counter:
        return Counter(f"highwater_soak_{name}", about, labels, registry=registry)

    runs = counter("runs", "Judged runs.", "kafka", "state")
    seconds = counter("seconds", "Seconds of all runs.", "kafka")
    acknowledged = counter("acknowledged_records", "Acknowledged records.", "kafka")
    lost = counter("lost_records", "Acknowledged records that were lost.", "kafka")
    faults = counter("faults", "Injected faults.", "kafka", "fault")
    anomalies = counter("anomalies", "Anomalies in verdicts.", "kafka", "kind")
    for row in rows:
        for state in STATES:
            runs.labels(row.kafka, state).inc(state == row.state)
        seconds.labels(row.kafka).inc(row.seconds)
        if row.counted:
            acknowledged.labels(row.kafka).inc(row.acknowledged)
            lost.labels(row.kafka).inc(row.lost)
        for fault, times in row.struck.items():
            faults.labels(row.kafka, fault).inc(times)
        for kind, times in row.counts.items():
            anomalies.labels(row.kafka, kind).inc(times)
    write_to_textfile(str(path), registry)
