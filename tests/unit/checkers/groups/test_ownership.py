"""Two owners of one partition, where the epochs of a removed group have begun again."""

from pathlib import Path

import pytest

from highwater.checkers.explain.read_trace import observe
from highwater.checkers.groups.ownership import doubly_owned
from tests.support.run_builder import RunBuilder


@pytest.mark.parametrize(("left", "count"), [(True, 0), (False, 1)])
def test_an_owner_that_has_left_is_not_replaced_by_an_earlier_epoch(
    tmp_path: Path, *, left: bool, count: int
) -> None:
    run = RunBuilder(tmp_path / "run", kafka="4.4.0")
    run.everywhere([(0, 0, "m0")])
    run.journal("assigned", "member-0", 0, epoch=2)
    if left:
        run.journal("revoked", "member-0", 0)
        run.journal("ended", "member-0", None)
    run.tick(100)
    run.journal("assigned", "member-1", 0, epoch=1)
    run.journal("commit", "member-1", 1)
    assert len([*doubly_owned(observe(run.write()).journal)]) == count
