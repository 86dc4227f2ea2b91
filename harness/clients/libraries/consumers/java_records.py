"""Records as Kafka's Java consumer prints them: a complete poll in one text.

A Java call for each field of each record would be about 10,000 round trips a second. So a poll
arrives as ``Arrays.toString`` of its ``ConsumerRecord`` objects. Keys and values are text in ISO
8859-1, in which each character is a byte. The sizes in the text show where keys and values end. If
the text has an unknown form, the parser raises an error, so that no record is missed.
"""

import re
from typing import Final

from highwater.harness.base.errors import HarnessError
from highwater.harness.clients.libraries.consumers.read_message import (
    APPEND_TIME,
    CREATE_TIME,
    NO_TIME,
    ReadMessage,
)

_FIRST: Final = "["
_NEXT: Final = ", "
_LAST: Final = "]"
_BETWEEN: Final = ", value = "
_END: Final = ")"
_NULL: Final = "null"
_KINDS: Final = {
    "CreateTime": CREATE_TIME,
    "LogAppendTime": APPEND_TIME,
    "NoTimestampType": NO_TIME,
    None: NO_TIME,
}
_HEAD: Final = re.compile(
    r"ConsumerRecord\(topic = [\w.-]+, partition = (?P<partition>\d+)"
    r"(?:, leaderEpoch = (?P<epoch>\d+|null))?"
    r", offset = (?P<offset>\d+)"
    r"(?:, (?P<kind>\w+) = (?P<time>-?\d+))?"
    r"(?:, deliveryCount = (?P<deliveries>\d+|null))?"
    r"(?:, checksum = \d+)?"
    r"(?:, serialized key size = (?P<key>-?\d+), serialized value size = (?P<value>-?\d+))?"
    r"(?:, headers = RecordHeaders\(headers = \[\], isReadOnly = \w+\))?"
    r", key = "
)


def parse(text: str) -> list[ReadMessage]:
    """Return the records in the text that Java printed.

    Raises:
        HarnessError: the text has an unknown form.
    """
    records: list[ReadMessage] = []
    place = len(_FIRST)
    while not text.startswith(_LAST, place):
        if records:
            place = _after(text, place, _NEXT)
        head = _HEAD.match(text, place)
        if head is None or head["kind"] not in _KINDS:
            raise _unknown(text, place)
        key, place = _content(text, head.end(), head["key"], _BETWEEN)
        value, place = _content(text, _after(text, place, _BETWEEN), head["value"], _END)
        place = _after(text, place, _END)
        records.append(
            ReadMessage(
                int(head["partition"]),
                int(head["offset"]),
                value,
                key=key,
                leader_epoch=_number(head["epoch"]),
                deliveries=_number(head["deliveries"]),
                timestamp=(_KINDS[head["kind"]], int(head["time"] or 0)),
            )
        )
    if len(text) != place + len(_LAST):
        raise _unknown(text, place)
    return records


def _number(text: str | None) -> int | None:
    return None if text in {None, _NULL} else int(text)


def _content(text: str, place: int, size: str | None, until: str) -> tuple[bytes | None, int]:
    """Return a key or a value, and the index of its end.

    Args:
        size: number of bytes; -1 for null. None for release 0.9, which prints no size.
        until: the text that follows. Without a size, it shows where the content ends.
    """
    if size is None:
        end = text.find(until, place) if until != _END else _next_record(text, place)
        if end < 0:
            raise _unknown(text, place)
        content = text[place:end]
        return (None if content == _NULL else content.encode("latin-1")), end
    if int(size) < 0:
        return None, _after(text, place, _NULL)
    end = place + int(size)
    return text[place:end].encode("latin-1"), end


def _next_record(text: str, place: int) -> int:
    end = text.find(f"{_END}{_NEXT}ConsumerRecord(", place)
    return len(text) - len(_END + _LAST) if end < 0 else end


def _after(text: str, place: int, word: str) -> int:
    if not text.startswith(word, place):
        raise _unknown(text, place)
    return place + len(word)


def _unknown(text: str, place: int) -> HarnessError:
    return HarnessError(
        f"Java's consumer prints records in an unknown form: {text[place:][:200]!r}",
        hint="Use a client of another release, and report this text.",
    )
