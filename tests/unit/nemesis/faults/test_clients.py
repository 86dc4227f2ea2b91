"""Faults between clients and brokers, as rules of the wire."""

from highwater.clusters.relay.refusals import LEGAL, NAMES, refusable
from highwater.nemesis.faults.clients import drawn_refusals

CLIENT = "client:producer-0"


def test_drawn_refusals_are_legal_repeatable_and_of_every_kind() -> None:
    seen = set()
    for seed in range(200):
        rules = drawn_refusals(CLIENT, seed)
        assert rules == drawn_refusals(CLIENT, seed)
        for rule in rules:
            acted = rule.side == "answer"
            assert refusable(rule.api, NAMES[rule.error], acted=acted)
            assert (rule.target if acted else rule.source) == CLIENT
            seen.add((rule.api, NAMES[rule.error], acted))
    assert seen == {
        (api, error, acted)
        for api, errors in LEGAL.items()
        for error in errors
        for acted in (False, True)
        if refusable(api, error, acted=acted)
    }
