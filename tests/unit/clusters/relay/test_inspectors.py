"""An answer finds its request, also beside requests that could not be decoded."""

import struct
from types import SimpleNamespace
from typing import Any

from highwater.clusters.relay.apis import APIS
from highwater.clusters.relay.inspectors import Answer, AnswerInspector, RequestInspector
from tests.unit.clusters.relay.test_messages import answer, request

METADATA = APIS["Metadata"].key


def inspectors() -> tuple[RequestInspector, AnswerInspector]:
    connection: Any = SimpleNamespace(
        of_client=True, users="clients", source="client:p", set_source=lambda _: None
    )
    requests = RequestInspector(connection)
    return requests, AnswerInspector(connection, requests)


def asked(found: object) -> int | None:
    return found.request.head.correlation if isinstance(found, Answer) else None


def test_the_answer_to_a_request_that_cannot_be_decoded_hides_no_other() -> None:
    requests, answers = inspectors()
    assert requests.read(bytearray(struct.pack(">i", 3) + b"\x00\x03\x00")) is None
    for correlation in (8, 9):
        assert requests.read(bytearray(request(METADATA, correlation))) is not None
    found = [asked(answers.read(bytearray(answer(number)))) for number in (7, 8, 9)]
    assert found == [None, 8, 9]


def test_a_request_without_an_answer_is_passed_over() -> None:
    requests, answers = inspectors()
    for correlation in (8, 9, 10):
        requests.read(bytearray(request(METADATA, correlation)))
    assert [asked(answers.read(bytearray(answer(number)))) for number in (9, 10)] == [9, 10]
    assert not requests.pending
