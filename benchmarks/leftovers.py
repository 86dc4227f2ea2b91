"""What killed harnesses leave behind: ``python -m benchmarks.leftovers [DRIVER ...]``.

Opens a cluster twenty times a driver (``wired`` is ``local`` with the wire, which cuts a broker off
as soon as it can), and kills the harness with SIGKILL at a random moment of its start or life,
every other time with its children at once (wardens, guards and the wire). Then sweeps once, as the
next run would, and counts: containers, networks, volumes and processes. Nothing may be left.
"""

import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import psutil

from clusters import claims
from clusters.claims import CLAIM_LABEL
from clusters.engine import connected
from harness.waiting import await_condition

DRIVERS = ("local", "docker", "wired")
STARTS = 20
LATEST_S = 10.0
SETTLE_LIMIT_S = 30.0
KAFKAS = ("0.10.2.2", "4.3.1")
MARK = "HIGHWATER_LEFTOVERS"
HARNESS = """
import sys, time
from pathlib import Path
from clusters.drivers import DRIVERS
from clusters.versions import release
from clusters.relay.rules import Rule, between
wired = sys.argv[1] == "wired"
cluster = DRIVERS["local" if wired else sys.argv[1]](
    release(sys.argv[2]), Path(sys.argv[3]), brokers=3, broker_config={}, wired=wired
)
if wired:
    cut = cluster.network.under(Rule(kind="cut", links=between([1], cluster.network.nodes)))
    cut.__enter__()
print("open", flush=True)
time.sleep(120)
"""


def one_kill(
    driver: str, kafka: str, token: str, choice: random.Random, *, all_at_once: bool
) -> str:
    """Start a harness, kill it at some moment, and say which."""
    with (
        tempfile.TemporaryDirectory(prefix="highwater-", ignore_cleanup_errors=True) as directory,
        subprocess.Popen(
            [sys.executable, "-c", HARNESS, driver, kafka, directory],
            stdout=subprocess.PIPE,
            env={**os.environ, MARK: token},
            start_new_session=True,
        ) as harness,
    ):
        delay = choice.uniform(0.0, LATEST_S)
        time.sleep(delay)  # the moment is the experiment
        family = psutil.Process(harness.pid).children() if all_at_once else []
        harness.kill()
        for child in family:
            child.kill()
        said, _ = harness.communicate()
    return f"killed after {delay:4.1f} s, {'open' if said else 'opening'}"


def left(token: str, known: set[str]) -> list[str]:
    """Whatever is still there of these starts."""
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
    """Whether a process descends from one of these starts."""
    try:
        return bool(process.environ().get(MARK) == token)
    except psutil.Error:
        return False


def known_before() -> set[str]:
    """Claims and volumes of others."""
    with connected() as client:
        things = client.api.containers(all=True, filters={"label": CLAIM_LABEL})
        things += client.api.networks(filters={"label": CLAIM_LABEL})
        volumes = client.api.volumes()["Volumes"] or []
    return {each["Labels"][CLAIM_LABEL] for each in things} | {each["Name"] for each in volumes}


def main(drivers: Sequence[str] = DRIVERS) -> None:
    """Twenty kills a driver; raises WaitTimeoutError, which lists what is left, if anything is."""
    known, choice = known_before(), random.Random(0)  # noqa: S311 - a repeatable choice of moments
    for driver in drivers or DRIVERS:
        token = secrets.token_hex(8)
        for number in range(STARTS):
            kafka, together = KAFKAS[number % 2], bool(number % 4 > 1)
            moment = one_kill(driver, kafka, token, choice, all_at_once=together)
            print(f"  {driver} {kafka:8} {moment}{', its children too' if together else ''}")
        print(f"  {driver}: the sweep removed {claims.sweep()} things", flush=True)
        await_condition(
            lambda token=token: left(token, known),  # type: ignore[misc]
            lambda found: not found,
            what="nothing to be left",
            limit_s=SETTLE_LIMIT_S,
        )
        print(f"  {driver}: nothing is left of {STARTS} starts", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
