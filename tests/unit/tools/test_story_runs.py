"""The file of what stories came to: with the client of each, and older rows as they were."""

import msgspec

from tools import story_runs


def test_rows_without_a_client_are_librdkafkas_and_stay_as_they_are() -> None:
    text = story_runs.RESULTS.read_bytes()
    rows = story_runs.read()
    assert {runs.client for runs in rows} >= {"librdkafka"}
    again = msgspec.json.format(msgspec.json.encode(rows), indent=1)
    assert again + b"\n" == text
    assert [runs.setting for runs in rows] == sorted(runs.setting for runs in rows)
    assert len({runs.setting for runs in rows}) == len(rows)
