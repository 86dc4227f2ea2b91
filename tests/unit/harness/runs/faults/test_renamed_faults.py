"""Faults that had another name up to 0.1: their old words still work, and say the new ones."""

import subprocess
import sys

import pytest

from highwater.harness.base.errors import RenamedWarning
from highwater.harness.runs import parse_values
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.steps import RENAMED_FAULTS, FaultStep, current_fault
from highwater.nemesis.faults.registry import faults, find_fault


def test_every_old_name_leads_to_a_fault_and_is_none() -> None:
    assert set(RENAMED_FAULTS.values()) <= set(faults())
    assert not set(RENAMED_FAULTS) & set(faults())
    assert find_fault("mute").name == "partition-outbound"


def test_targets_and_weights_stay() -> None:
    assert current_fault("ring@leader=3") == "partition-majorities-ring@leader=3"
    assert current_fault("recycle=2") == "crash-loop=2"
    assert current_fault("kill@2") == "kill@2"


def test_an_old_plan_is_read_with_the_names_of_today() -> None:
    plan = Plan.from_json(
        b'{"kafka": "4.3.1", "schema": 1, "nemesis": ["halves", "kill"],'
        b' "budget": {"mute": 2, "brokers": 1}, "steps": [{"fault": "deafen", "at_s": 1}]}'
    )
    assert plan.nemesis == ("partition-halves", "kill")
    assert plan.budget == {"partition-outbound": 2, "brokers": 1}
    assert plan.steps == (FaultStep(fault="partition-inbound", at_s=1),)


def test_a_word_says_what_it_is_called_now() -> None:
    with pytest.warns(
        RenamedWarning, match="the fault mute@leader now has the name partition-outbound@leader"
    ):
        assert parse_values.nemesis("kill,mute@leader") == ("kill", "partition-outbound@leader")
    with pytest.warns(RenamedWarning, match="ring now has the name"):
        assert parse_values.budget("ring=2") == {"partition-majorities-ring": 2}


@pytest.mark.slow
def test_the_command_says_it_in_one_line() -> None:
    words = ["run", "--kafka", "4.3.1", "--nemesis", "mute", "--for", "0.5s", "--store", "/nowhere"]
    command = [sys.executable, "-m", "highwater", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    first, second = done.stderr.splitlines()[:2]
    assert first == "highwater: the fault mute now has the name partition-outbound"
    assert second.startswith("highwater: 0.5 s are too short: a random schedule")
    assert done.returncode == 2
