"""Stories are in one order, whichever module of theirs was imported first."""

from typing import Final

import pytest

from highwater.nemesis.stories.registry import STORIES
from tests.support.commands import run_python

FAMILIES: Final = ("failovers", "canaries", "power_failure", "network", "restarts")
_PROGRAM: Final = """
import importlib, sys
for family in sys.argv[1:]:
    for name in [name for name in sys.modules if name.startswith("highwater.nemesis.stories")]:
        del sys.modules[name]
    importlib.import_module(f"highwater.nemesis.stories.{family}")
    print(*importlib.import_module("highwater.nemesis.stories.registry").STORIES)
"""


@pytest.mark.slow
def test_the_order_of_stories_does_not_depend_on_imports() -> None:
    code, out, err = run_python(_PROGRAM, *FAMILIES)
    assert code == 0, err
    for family, order in zip(FAMILIES, out.splitlines(), strict=True):
        assert order.split() == [*STORIES], family
    assert next(iter(STORIES)) == "loss"
