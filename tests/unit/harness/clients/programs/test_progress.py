"""A program has come to its end when positions are at the end and nothing moves any more."""

from highwater.harness.clients.programs.positions import FULL_S, STILL_S, Progress, StoodStill


def test_a_program_that_is_behind_or_writes_has_not_ended() -> None:
    now = 0.0
    still = StoodStill(2, lambda: now)
    done = Progress({0: 5, 1: None}, {0: 5, 1: 0}, 5)
    assert not still(done)
    now += STILL_S / 2
    assert not still(done)
    now += STILL_S
    assert not still(done._replace(written=6))  # it wrote: it must stand still anew
    now += STILL_S
    assert still(done._replace(written=6))
    assert not still(Progress({0: 4}, {0: 5}, 6))
    now += 2 * STILL_S
    assert not still(Progress({0: 4}, {0: 5}, 6))


def test_a_program_with_all_its_outputs_need_not_stand_still_for_long() -> None:
    now = 0.0
    still = StoodStill(2, lambda: now)
    missing, full = (Progress({0: 5}, {0: 5}, written) for written in (9, 10))
    assert not still(missing)
    now += FULL_S
    assert not still(missing)
    assert not still(full)
    now += FULL_S
    assert still(full)
    assert not still(Progress({0: 4}, {0: 5}, 20))
    now += STILL_S
    assert not still(Progress({0: 4}, {0: 5}, 20))


def test_which_partitions_are_behind() -> None:
    progress = Progress({0: 5, 1: None, 2: 7}, {0: 5, 1: 3, 2: 9, 3: 0}, 0)
    assert progress.behind == {1: None, 2: 7}
