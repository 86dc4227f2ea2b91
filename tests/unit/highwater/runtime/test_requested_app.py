"""The plan of a run with a program under test, by its options."""

import pytest

from highwater.runtime.preflight import check_plan
from highwater.runtime.requested_plan import requested_app


@pytest.mark.parametrize(
    ("given", "nemesis"),
    [
        ({}, ("app-cut", "app-pause", "app-refuse-outputs", "app-kill=3", "app-stop")),
        ({"wire_clients": False}, ("app-pause", "app-kill=3", "app-stop")),
        ({"nemesis": "app-cut,kill"}, ("app-cut", "kill")),
        ({"nemesis": "none"}, ()),
    ],
)
def test_connections_and_outputs_have_faults_where_the_brokers_are_our_own(
    given: dict[str, object], nemesis: tuple[str, ...]
) -> None:
    plan = requested_app(["cat"], given)
    assert plan.nemesis == nemesis
    assert plan.wire_clients is given.get("wire_clients", True)
    check_plan(plan)


def test_an_output_elsewhere_cannot_be_refused() -> None:
    nemesis = requested_app(["cat"], {}, topic="orders").nemesis
    assert nemesis == ("app-cut", "app-pause", "app-kill=3", "app-stop")
