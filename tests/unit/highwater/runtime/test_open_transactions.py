"""For how long a transaction may be open after its client, by what the client was told."""

import pytest

from highwater.runtime.workload import may_be_open_s


@pytest.mark.parametrize(
    ("timeout_s", "answered", "seconds"),
    [
        (None, True, 5.0),  # markers are written at once
        (30.0, True, 45.0),  # a crashed client's is aborted at its time-out
        (None, False, None),
        (30.0, False, None),
    ],
)
def test_a_transaction_is_open_until_its_client_knows_or_its_time_is_out(
    timeout_s: float | None, answered: bool, seconds: float | None
) -> None:
    assert may_be_open_s(timeout_s, answered=answered) == seconds
