"""Java's new consumer loses a partition while a poll deserializes: KAFKA-20332."""

from pathlib import Path

import pytest

from tools import client_polls

pytestmark = [pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(600)]


def test_a_poll_skips_records_with_older_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_polls, "PLAYS", 2)
    old, new = client_polls.play(("java:4.1.2", "java:4.2.1"), tmp_path)
    assert (old.skipped, new.skipped) == (2, 0)
    assert old.errors == ["IllegalStateException"]
