"""Golden runs with replicas of the coordinators' topics."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from highwater.harness.runs.store import Run
from tests.support.logdirs import Broker, plain
from tests.support.run_builder import RunBuilder

TOPIC: Final = "__consumer_offsets"
Finding = tuple[str, int, int | None, str | None]
FOUND: Final[tuple[Finding, ...]] = (("coordinator-divergence", 0, 2, None),)


def run_with(path: Path, *replicas: str, hw: int = 3, calm: bool = True) -> Run:
    """A run whose brokers hold these records of a coordinator, a letter each, all of epoch 0.

    Args:
        hw: of each replica.
        calm: whether the cluster came to rest.
    """
    run = RunBuilder(path, quiesced=calm)
    run.everywhere([(0, 0, "m0")])
    run.fence(1)
    run.disk([1, 2, 3], [(1, 0, "fence-0")])
    built = run.write()
    for broker, words in enumerate(replicas, start=1):
        if not calm:
            run.checkpoint(broker, {0: 2})
        folder = Broker(built.coordinators / str(broker), broker).meta()
        folder.log(f"{TOPIC}-0", plain(words))
        folder.checkpoint("replication-offset-checkpoint", {f"{TOPIC}-0": hw})
    return built


CASES: Final[Sequence[tuple[str, Callable[[Path], Run], tuple[Finding, ...]]]] = (
    ("coordinators-agree", lambda path: run_with(path, "abc", "abc", "abc"), ()),
    ("coordinators-lag", lambda path: run_with(path, "abc", "a", "abc"), ()),
    ("coordinators-fork", lambda path: run_with(path, "abc", "abx", "abc"), FOUND),
    ("coordinators-fork-restless", lambda p: run_with(p, "abc", "abx", "abc", calm=False), FOUND),
    (
        "coordinators-fork-above-hw",
        lambda path: run_with(path, "abc", "abx", "abc", hw=2, calm=False),
        (),
    ),
)
