"""What my service relies on: a record that Kafka has acknowledged stays."""

import pytest

from highwater import Case, KafkaRun


@pytest.mark.kafka(acks="all")
def test_an_acknowledged_record_stays(kafka_run: KafkaRun) -> None:
    """Kill the leader and its successor while the third replica has yet to hear of a commit."""
    kafka_run(story="loss")


@pytest.mark.kafka(acks=["1", "all"])
def test_brokers_come_and_go(kafka_run: KafkaRun, highwater_case: Case) -> None:
    """Kill and pause brokers at random; with acks=1 that may cost records, and it is known."""
    result = kafka_run(nemesis="kill,pause", duration="10s", seed=7)
    assert result.acknowledged > 0
    if highwater_case.acks == "all":
        assert result.lost == 0
