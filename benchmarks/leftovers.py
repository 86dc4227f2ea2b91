"""Count what killed harnesses leave behind: ``python -m benchmarks.leftovers [DRIVER ...]``.

A driver is ``local``, ``docker`` or ``wired`` (``local`` with the relay). The benchmark starts a
harness, which opens a cluster, and injects and heals random faults. At a random time the harness
ends in one of four ways: SIGKILL; SIGKILL of the harness and its children (wardens, guards and the
relay); Ctrl-C; an error during a fault. This is repeated. Then the benchmark cleans up once, as the
next run would. It counts the remaining containers, networks, volumes and processes, including
paused processes. Nothing may remain.

``HIGHWATER_KILL_POINTS`` is the number of kills for each driver (default 20).
"""

import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

import psutil

from highwater.clusters.containers import ownership
from highwater.clusters.containers.daemon import connected
from highwater.clusters.containers.ownership import CLAIM_LABEL
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN

DRIVERS = ("local", "docker", "wired")
STARTS = int(os.environ.get("HIGHWATER_KILL_POINTS", "20"))
LATEST_S = 18.0
ENDS_S = 60.0
SETTLE_LIMIT_S = 30.0
KAFKAS = ("0.10.2.2", MODERN)
WAYS = ("kill", "kill all", "Ctrl-C", "error")
MARK = "HIGHWATER_LEFTOVERS"
HARNESS = """
import contextlib, random, sys, time
from pathlib import Path
from highwater.clusters.drivers import open_cluster
from highwater.harness.releases.catalogue import release
from highwater.nemesis.faults.registry import aimed
from highwater.nemesis.injector import Nemesis
driver, kafka, directory, seed, until = sys.argv[1:]
ends = time.monotonic() + float(until)

@aimed("broken")
def broken(cluster, aim):
    "Pause a broker, and fail."
    cluster.brokers[aim.victim].pause()
    raise RuntimeError("in the midst of a fault")
    yield ""

class Silent:
    def fault(self, *_): print("struck", flush=True)

wired, dice = driver == "wired", random.Random(int(seed))
names = ["kill", "pause", "stop", "power-failure"]
names += ["isolate", "partition-halves", "hold-hw"] * wired
cluster = open_cluster(
    release(kafka),
    Path(directory),
    brokers=3,
    broker_config={},
    wired=wired,
    driver="local" if wired else driver,
)
with contextlib.closing(cluster):
    nemesis = Nemesis(cluster, Silent())
    print("open", flush=True)
    while True:
        for broker in dice.sample([1, 2, 3], 2):
            nemesis.inject(dice.choice(names), broker)
        time.sleep(dice.uniform(0.0, 1.0))
        if float(until) and time.monotonic() > ends:
            nemesis.heal(1)
            nemesis.inject("broken", 1)
        nemesis.heal_all()
"""


def one_end(driver: str, kafka: str, token: str, choice: random.Random, way: str) -> str:
    """Start a harness, end it at a random time, and return the way in which it ended."""
    delay = choice.uniform(0.0, LATEST_S)
    until, seed = delay if way == "error" else 0.0, str(choice.randrange(10**6))
    with (
        tempfile.TemporaryDirectory(prefix="highwater-", ignore_cleanup_errors=True) as directory,
        subprocess.Popen(
            [sys.executable, "-c", HARNESS, driver, kafka, directory, seed, str(until)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, MARK: token},
            start_new_session=True,
        ) as harness,
    ):
        if way != "error":
            time.sleep(delay)  # the moment is the experiment
            family = psutil.Process(harness.pid).children() if way == "kill all" else []
            harness.send_signal(signal.SIGINT if way == "Ctrl-C" else signal.SIGKILL)
            for child in family:
                child.kill()
        said, complaint = harness.communicate(timeout=2 * ENDS_S)
    last = complaint.strip().splitlines()[-1:]
    expected = {"error": "in the midst of a fault", "Ctrl-C": "KeyboardInterrupt"}.get(way, "")
    if not any(expected in line for line in last or [""]):
        print(f"  it said: {complaint[-2000:]}", flush=True)
    struck = said.count("struck")
    return "opening" if "open" not in said else f"after {struck} steps" if struck else "open"


def left(token: str, known: set[str], *, swept: bool) -> list[str]:
    """Return a text for each process, container, network or volume that harnesses left."""
    if swept:
        ownership.sweep()
    found = [
        f"process {each.pid} {each.name()}" for each in psutil.process_iter() if of(each, token)
    ]
    with connected() as client:
        for kind, things in (
            ("container", client.api.containers(all=True, filters={"label": CLAIM_LABEL})),
            ("network", client.api.networks(filters={"label": CLAIM_LABEL})),
        ):
            claimed = {each["Labels"][CLAIM_LABEL] for each in things}
            found += [f"{kind} of {claim}" for claim in sorted(claimed - known)]
        volumes = client.api.volumes()["Volumes"] or []
        found += [f"volume {each['Name']}" for each in volumes if each["Name"] not in known]
    return found


def of(process: psutil.Process, token: str) -> bool:
    """Return whether a process has the harnesses' token in its environment."""
    try:
        return bool(process.environ().get(MARK) == token)
    except psutil.Error:
        return False


def known_before() -> set[str]:
    """Return the claims (labels of containers and networks) and volumes that exist now."""
    with connected() as client:
        things = client.api.containers(all=True, filters={"label": CLAIM_LABEL})
        things += client.api.networks(filters={"label": CLAIM_LABEL})
        volumes = client.api.volumes()["Volumes"] or []
    return {each["Labels"][CLAIM_LABEL] for each in things} | {each["Name"] for each in volumes}


def main(drivers: Sequence[str] = DRIVERS) -> None:
    """End each driver's harness often; raise WaitTimeoutError with a list of leftovers, if any."""
    # A shell may have it ignored, and what is ignored stays so in children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    known, choice = known_before(), random.Random(0)  # noqa: S311 - a repeatable choice of moments
    for driver in drivers or DRIVERS:
        token, moments = secrets.token_hex(8), Counter[str]()
        for number in range(STARTS):
            kafka, way = KAFKAS[number // len(WAYS) % 2], WAYS[number % len(WAYS)]
            moment = one_end(driver, kafka, token, choice, way)
            moments["opening" if moment == "opening" else "open"] += 1
            print(f"  {driver} {kafka:8} {way:8} {moment}", flush=True)
            await_condition(
                partial(left, token, known, swept=driver == "docker"),
                lambda found: not found,
                what="nothing to be left",
                limit_s=SETTLE_LIMIT_S,
            )
        print(f"  {driver}: nothing is left of {STARTS} starts: {dict(moments)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
