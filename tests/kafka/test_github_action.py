"""The Action's shell lines play a story on brokers, and show what was lost."""

from pathlib import Path

import pytest

from highwater.harness.base.exit_codes import BROKEN
from tests.support.ci_files import action, bash


@pytest.mark.nightly
def test_the_action_plays_a_story_on_brokers(tmp_path: Path) -> None:
    done = bash(action("Run it"), tmp_path, KAFKA="0.10.2.2", STORY="loss")
    assert done.returncode == BROKEN, done.stderr
    assert "<failure " in (tmp_path / "store" / "junit.xml").read_text("utf-8")
    assert bash(action("Show what was lost"), tmp_path).stdout.startswith("::error ")
