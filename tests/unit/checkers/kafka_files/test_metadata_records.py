"""Records of the metadata log, as Kafka 3.3 to 4.4 write them."""

import pytest

from highwater.checkers.kafka_files import metadata_records as kinds
from highwater.checkers.kafka_files.metadata_records import MetadataRecordError, decode, name
from tests.support import metadata_logs as made
from tests.support.metadata_logs import TOPIC_ID

# Written by a controller of Kafka 4.4.0: the topic, its partition, and an election.
TOPIC = bytes.fromhex("010200076576656e7473000102030405060708090a0b0c0d0e0f00")


def test_a_topic_of_a_real_controller() -> None:
    assert decode(TOPIC) == kinds.TopicRecord(name="events", topic_id=TOPIC_ID)
    assert made.topic() == TOPIC


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_partition_of_every_version(version: int) -> None:
    record = made.partition(
        7, replicas=(3, 1), isr=(1,), leader=1, epoch=5, version=version, topic_id=TOPIC_ID
    )
    assert decode(record) == kinds.PartitionRecord(
        topic_id=TOPIC_ID, partition=7, replicas=(3, 1), isr=(1,), leader=1, leader_epoch=5
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_change_names_what_it_changes(version: int) -> None:
    record = decode(made.change(7, leader=-1, isr=(), version=version))
    assert record == kinds.PartitionChangeRecord(
        topic_id=TOPIC_ID, partition=7, replicas=None, isr=(), leader=-1
    )
    record = decode(made.change(replicas=(2, 300), version=version))
    assert record == kinds.PartitionChangeRecord(
        topic_id=TOPIC_ID, partition=0, replicas=(2, 300), isr=None, leader=kinds.UNCHANGED
    )


def test_tags_that_are_not_known_are_passed_over() -> None:
    fields = made.change(isr=(1, 2))[3:23]  # the frame and the tags are made again
    isr = made.brokers((1, 2))
    record = decode(made.framed(5, 2, fields, {0: isr, 6: b"", 99: bytes(200)}))
    assert isinstance(record, kinds.PartitionChangeRecord)
    assert record.isr == (1, 2)


def test_settings_and_features() -> None:
    assert decode(made.setting("a", None)) == kinds.ConfigRecord(
        resource_type=kinds.TOPIC, resource="events", name="a", value=None
    )
    assert decode(made.setting("a" * 200, "b" * 300)) == kinds.ConfigRecord(
        resource_type=kinds.TOPIC, resource="events", name="a" * 200, value="b" * 300
    )
    assert decode(made.feature("metadata.version", 33)) == kinds.FeatureLevelRecord(
        name="metadata.version", level=33
    )


def test_other_kinds_decide_nothing_of_ours() -> None:
    assert decode(made.nothing()) is None
    assert decode(made.framed(99, 4, b"whatever")) is None
    assert name(made.nothing()) == "NoOpRecord"
    assert name(made.framed(99, 4, b"")) == "record of kind 99"
    assert name(b"") == name(b"\x02\x00\x00") == "no record"


@pytest.mark.parametrize("record", [made.topic(), made.partition(), made.setting("a", "b")])
def test_a_record_that_breaks_off_is_refused(record: bytes) -> None:
    for end in range(len(record) - 1):  # without its last byte, no tag, it is still all there
        with pytest.raises(MetadataRecordError):
            decode(record[:end])


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01" + b"\xff" * 6, "has no end"),
        (made.framed(2, 0, b"\x00" + TOPIC_ID), "is null"),
        (made.framed(2, 0, b"\x02\xff" + TOPIC_ID), "no UTF-8"),
    ],
)
def test_nonsense_is_refused(record: bytes, says: str) -> None:
    with pytest.raises(MetadataRecordError, match=says):
        decode(record)
