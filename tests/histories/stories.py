"""The two stories as the harness records them on Kafka 0.10.2.2."""

from pathlib import Path

from highwater.harness.runs.store import Run
from tests.support.run_builder import RunBuilder

CUT = "[2026-11-21 04:55:01,234] INFO Truncating log events-0 to offset 3. (kafka.log.Log)"


def loss(path: Path) -> Run:
    """m3 is acknowledged; broker 3 cuts it off, leads, and gives its offset to m4."""
    run = RunBuilder(path)
    rehearse_loss(run)
    return run.write()


def fork(path: Path) -> Run:
    """The same, but broker 1 comes back with HW 4 on its disk, and keeps m3."""
    run = RunBuilder(path)
    rehearse_fork(run)
    return run.write()


def rehearse_loss(run: RunBuilder) -> None:
    """The story of ``loss``, not yet on disk."""
    _acknowledge_m3(run)
    run.tick(2)
    run.fault("kill", 1, "broker 1 is killed")
    _fail_over(run)
    run.tick(1000)
    run.fault("kill", 1, "broker 1 is healed", phase="heal")
    run.fault("kill", 2, "broker 2 is healed", phase="heal")
    run.tick(800)
    for leo in (3, 4):
        run.tick(10)
        run.observe(1, leo)
        run.observe(2, leo)
    _final_read(run)
    run.disk([1, 2, 3], [(3, 2, "m4"), (4, 2, "fence-0")])


def rehearse_fork(run: RunBuilder) -> None:
    """The story of ``fork``, not yet on disk."""
    _acknowledge_m3(run)
    run.tick(1200)
    run.fault("kill", 1, "broker 1 is killed")
    _fail_over(run)
    run.tick(1000)
    run.fault("kill", 1, "broker 1 is healed", phase="heal")
    run.observe(1, 4)
    run.tick(400)
    run.fault("kill", 2, "broker 2 is healed", phase="heal")
    for leo in (3, 4):
        run.tick(30)
        run.observe(2, leo)
    _final_read(run)
    run.disk([1], [(3, 0, "m3")])
    run.disk([2, 3], [(3, 2, "m4")])
    run.disk([1, 2, 3], [(4, 2, "fence-0")])


def _acknowledge_m3(run: RunBuilder) -> None:
    """m0 to m2 are settled everywhere; m3 is acknowledged and above the HW of both followers."""
    run.leader(1, 0, [1, 2, 3])
    run.observe_all(0)
    run.tick(500)
    for offset in range(3):
        run.send(f"m{offset}", offset)
    run.tick(600)
    run.observe_all(3)
    run.tick(100)
    run.send("m3", 3)
    run.observe(1, 4)
    run.observe(2, 4, 3)
    run.observe(3, 4, 3)


def _fail_over(run: RunBuilder) -> None:
    """Broker 2 dies too, and leads for a moment: broker 3 cuts its log to its HW, then it leads."""
    run.tick(700)
    run.fault("kill", 2, "broker 2 is killed")
    run.observe(1, None)
    run.observe(2, None)
    run.tick(800)
    run.leader(2, 1, [2, 3])
    run.log_line(3, "truncation", CUT, offset=3)
    run.tick(3)
    run.observe(3, 3)
    run.tick(900)
    run.leader(3, 2, [3])
    run.tick(100)
    run.send("m4", 3, process="producer-1")
    run.observe(3, 4)


def _final_read(run: RunBuilder) -> None:
    run.leader(3, 2, [3, 1, 2])
    for offset, value in enumerate(["m0", "m1", "m2", "m4"]):
        run.read(value, offset)
    run.fence(4)
    run.disk([1, 2, 3], [(offset, 0, f"m{offset}") for offset in range(3)])
