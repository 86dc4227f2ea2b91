"""What librdkafka's statistics say becomes rows: a broker, and how many records came from it."""

import json

from highwater.harness.clients.fetch_sources import FetchSources

Row = tuple[object, ...]


class Rows:
    """Keeps what would be recorded."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def fetch(self, **row: object) -> None:
        assert row.pop("process") == "consumer-0"
        self.rows.append(tuple(row.values()))


def statistics(broker: int, leader: int, rxmsgs: int, *, partition: int = 0) -> str:
    fields = {"partition": partition, "broker": broker, "leader": leader, "rxmsgs": rxmsgs}
    return json.dumps({"topics": {"events": {"partitions": {str(partition): fields}}}})


def test_a_row_says_how_many_records_came_and_whether_the_broker_changed() -> None:
    rows = Rows()
    sources = FetchSources(rows, process="consumer-0", topic="events")  # type: ignore[arg-type]
    sources.note(json.dumps({"topics": {}}))
    sources.note(statistics(-1, -1, 0, partition=-1))
    assert rows.rows == []
    for said in [(1, 1, 5), (1, 1, 5), (1, 1, 9), (2, 1, 12), (2, 1, 20), (2, 2, 20)]:
        sources.note(statistics(*said))
    assert rows.rows == [
        (0, 1, 1, 5, True),
        (0, 1, 1, 4, False),
        (0, 2, 1, 3, True),
        (0, 2, 1, 8, False),
        (0, 2, 2, 0, False),
    ]


def test_a_client_is_in_the_rack_that_it_is_given() -> None:
    sources = FetchSources(Rows(), process="consumer-0", topic="events")  # type: ignore[arg-type]
    assert sources.settings("rack-2")["client.rack"] == "rack-2"
    assert sources.settings("rack-2")["stats_cb"] == sources.note
