"""The software levels through which a plan upgrades its brokers, and their checks."""

from itertools import pairwise
from typing import Final

from highwater.clusters.releases.software_level import Level, numbers, upgrade_levels
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import metadata_release, release
from highwater.harness.releases.release import Release
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.steps import fault_in

UPGRADE: Final = "upgrade"
"""The name of the fault that upgrades brokers to the next software level."""

_IGNORED: Final = (3,)
_PLACES: Final = {"zookeeper": "ZooKeeper", "kraft": "KRaft"}


def levels(plan: Plan) -> tuple[Level, ...]:
    """Return the software levels that brokers pass through, including the first level."""
    caps = {"protocol": plan.protocol, "format": plan.format}
    start = Level.of(release(plan.kafka), **caps)
    return (start, *upgrade_levels(start, map(release, plan.to), **caps))


def settings(plan: Plan) -> dict[str, str]:
    """Return the broker settings of the first software level; empty if the plan names none."""
    return levels(plan)[0].settings if plan.to or plan.protocol or plan.format else {}


def check_levels(plan: Plan) -> None:
    """Raise an error if Kafka does not support the plan's upgrade, protocol or message format.

    Raises:
        UsageError: the message states the reason.
    """
    if not (plan.to or plan.protocol or plan.format):
        return
    path = [release(name) for name in (plan.kafka, *plan.to)]
    _check_path(plan, path)
    if path[0].coordination == "kraft":
        _check_metadata(plan)
    newest = path[-1]
    for what, most in (("protocol", plan.protocol), ("message format", plan.format)):
        if most and numbers(most) > numbers(newest.protocol):
            raise UsageError(
                f"Kafka {newest.name} has no {what} {most}", hint=f"At most {newest.protocol}."
            )
    if plan.format and plan.protocol and numbers(plan.format) > numbers(plan.protocol):
        raise UsageError(
            f"with protocol {plan.protocol} no message format {plan.format} can be written",
            hint="Kafka raises the protocol first.",
        )
    old = path[0].coordination == "zookeeper"
    if old and plan.format and numbers(levels(plan)[-1].protocol) >= _IGNORED:
        raise UsageError(
            "log.message.format.version is ignored since protocol 3.0 (KIP-724)",
            hint="Add --protocol 2.8.",
        )


def _check_metadata(plan: Plan) -> None:
    """Raise an error if a KRaft plan has a message format, or an unknown metadata.version.

    Raises:
        UsageError: the plan has a message format, or no release has this metadata.version.
    """
    if plan.format:
        raise UsageError(
            "on KRaft there is no log.message.format.version",
            hint="Leave --format out; --protocol 3.9 keeps the metadata.version of 3.9.",
        )
    if plan.protocol:
        metadata_release(plan.protocol)


def _check_path(plan: Plan, path: list[Release]) -> None:
    """Raise an error if an upgrade leads to an older release, or from ZooKeeper to KRaft.

    Raises:
        UsageError: the message states the reason.
    """
    for level in path:
        if level.coordination != path[0].coordination:
            raise UsageError(
                f"Kafka {path[0].name} is on {_PLACES[path[0].coordination]}, and {level.name} on"
                f" {_PLACES[level.coordination]}",
                hint="Highwater does not migrate clusters from ZooKeeper to KRaft (KIP-866).",
            )
        if plan.driver not in level.drivers:
            raise UsageError(
                f"{plan.driver} cannot run Kafka {level.name}", hint="Leave this release out."
            )
    for before, after in pairwise(path):
        if after.number <= before.number:
            raise UsageError(
                f"Kafka {before.name} cannot be upgraded to {after.name}",
                hint="Name the releases of --to from the oldest to the newest.",
            )
    words = set(map(fault_in, plan.nemesis))
    words |= {step.fault for step in plan.steps}
    if plan.to and plan.story is None and UPGRADE not in words:
        raise UsageError(
            "no fault or story in this run upgrades a broker",
            hint="Add upgrade to --nemesis, or a --story.",
        )
