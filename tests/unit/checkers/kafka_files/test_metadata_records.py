"""Records of the metadata log, as Kafka 3.3 to 4.4 write them."""

import pytest

from highwater.checkers.kafka_files.metadata_records import (
    TOPIC as OF_TOPIC,
)
from highwater.checkers.kafka_files.metadata_records import (
    MetadataRecord,
    MetadataRecordError,
    decode,
    name,
)
from tests.support import metadata_logs as made
from tests.support.metadata_logs import TOPIC_ID

# Written by a controller of Kafka 4.4.0: the topic, its partition, and an election.
TOPIC = bytes.fromhex("010200076576656e7473000102030405060708090a0b0c0d0e0f00")


def test_a_topic_of_a_real_controller() -> None:
    assert decode(TOPIC) == ("TopicRecord", {"name": "events", "topic_id": TOPIC_ID})
    assert made.topic() == TOPIC


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_partition_of_every_version(version: int) -> None:
    record = made.partition(
        7, replicas=(3, 1), isr=(1,), leader=1, epoch=5, version=version, topic_id=TOPIC_ID
    )
    assert decode(record) == MetadataRecord(
        "PartitionRecord",
        {
            "partition": 7,
            "topic_id": TOPIC_ID,
            "replicas": (3, 1),
            "isr": (1,),
            "removing_replicas": (),
            "adding_replicas": (),
            "leader": 1,
            "leader_epoch": 5,
        },
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_change_names_what_it_changes(version: int) -> None:
    record = decode(made.change(7, leader=-1, isr=(), version=version))
    changes: dict[str, object] = {"isr": (), "leader": -1}
    fields = {"partition": 7, "topic_id": TOPIC_ID, "changes": changes}
    assert record == ("PartitionChangeRecord", fields)
    record = decode(made.change(replicas=(2, 300), version=version))
    fields = {"partition": 0, "topic_id": TOPIC_ID, "changes": {"replicas": (2, 300)}}
    assert record == ("PartitionChangeRecord", fields)


def test_tags_that_are_not_known_are_passed_over() -> None:
    fields = made.change(isr=(1, 2))[3:23]  # the frame and the tags are made again
    isr = made.brokers((1, 2))
    record = decode(made.framed(5, 2, fields, {0: isr, 6: b"", 99: bytes(200)}))
    assert record is not None
    assert record.fields["changes"] == {"isr": (1, 2)}


@pytest.mark.parametrize(("key", "value"), [("a", None), ("a" * 200, "b" * 300)])
def test_settings(key: str, value: str | None) -> None:
    fields = {"resource_type": OF_TOPIC, "resource_name": "events", "name": key, "value": value}
    assert decode(made.setting(key, value)) == ("ConfigRecord", fields)


def test_features() -> None:
    fields = {"name": "metadata.version", "level": 33}
    assert decode(made.feature("metadata.version", 33)) == ("FeatureLevelRecord", fields)


def test_other_kinds_decide_nothing_of_ours() -> None:
    assert decode(made.nothing()) is None
    assert decode(made.framed(99, 4, b"whatever")) is None
    assert name(made.nothing()) == "NoOpRecord"
    assert name(made.framed(99, 4, b"")) == "record of kind 99"
    assert name(b"") == name(b"\x02\x00\x00") == "an invalid record"


@pytest.mark.parametrize(
    ("record", "unused"),
    [
        (made.topic(), 1),  # no tags
        (made.partition(version=0), 5),  # the partition's own epoch, and no tags
        (made.change(isr=(1, 2)), 0),
        (made.setting("a", "b"), 1),
    ],
)
def test_a_record_that_breaks_off_is_refused(record: bytes, unused: int) -> None:
    for end in range(len(record) - unused):
        with pytest.raises(MetadataRecordError):
            decode(record[:end])


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01" + b"\xff" * 6, "a record ends"),
        (made.framed(2, 0, b"\x00" + TOPIC_ID), "TopicRecord ends early, or is invalid"),
        (made.framed(2, 0, b"\x02\xff" + TOPIC_ID), "TopicRecord ends early, or is invalid"),
    ],
)
def test_nonsense_is_refused(record: bytes, says: str) -> None:
    with pytest.raises(MetadataRecordError, match=says):
        decode(record)
