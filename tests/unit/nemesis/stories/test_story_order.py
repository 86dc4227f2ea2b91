"""Stories are in one order, whichever module of theirs was imported first."""

import subprocess
import sys

import pytest

from highwater.nemesis.stories.registry import STORIES

_PROGRAM = """
import highwater.nemesis.stories.{family}
from highwater.nemesis.stories.registry import STORIES
print(*STORIES)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", ["failovers", "canaries", "power_failure", "network", "restarts"]
)
def test_the_order_of_stories_does_not_depend_on_imports(family: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(family=family)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [*STORIES]
    assert done.stdout.split()[0] == "loss"
