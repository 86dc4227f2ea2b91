"""Plan a matrix: a run (cell) for each combination of settings (axes), grouped by cluster."""

import itertools
import re
from collections.abc import Iterator, Sequence

from msgspec.structs import asdict

from highwater.clusters.drivers import find_driver
from highwater.harness.base.errors import UsageError
from highwater.harness.campaigns.matrix_cells import (
    PLAIN,
    Axes,
    Delivery,
    Matrix,
    MatrixCell,
    MatrixSetting,
    SkippedCombination,
    delivery_of,
)
from highwater.harness.releases.catalogue import CATALOGUE, release
from highwater.harness.releases.client_choice import LIBRDKAFKA, read_client
from highwater.harness.runs import parse_values
from highwater.harness.runs.plan import Plan
from highwater.nemesis.faults.registry import CLIENTS
from highwater.nemesis.schedules.fault_spec import FaultSpec
from highwater.nemesis.schedules.generator import check_duration
from highwater.nemesis.stories.registry import find_story
from highwater.runtime.cluster_pool import ClusterKey
from highwater.runtime.preflight import check_plan
from highwater.runtime.requested_plan import requested_plan


def lay_out(axes: Axes) -> Matrix:
    """Return the matrix of all combinations of settings.

    A combination that cannot be executed is in ``skipped``, with a reason; every other one is a
    cell. The oldest Kafka release comes first.
    """
    _check(axes)
    cells: list[MatrixCell] = []
    skipped: list[SkippedCombination] = []
    for setting in _settings(axes):
        fields = asdict(setting)
        if reason := _obstacle(setting, axes.duration_s):
            skipped.append(SkippedCombination(**fields, reason=reason))
        else:
            cells.append(MatrixCell(**fields, run=_name(setting)))
    if not cells:
        why = f"The first reason: {skipped[0].reason}." if skipped else "Name a story or a nemesis."
        raise UsageError("no combination of this matrix can be executed", hint=why)
    return Matrix(axes=axes, cells=tuple(cells), skipped=tuple(skipped))


def plan_of(setting: MatrixSetting, *, duration_s: float) -> Plan:
    """Return the plan of a cell's run."""
    names = ("kafka", "acks", "min_isr", "unclean", "seed", "client", "reader_client")
    given = {name: getattr(setting, name) for name in names} | {"cluster": setting.driver}
    if setting.delivery == "idempotent":
        given["idempotence"] = True
    if setting.story is not None:
        return requested_plan(given | {"story": setting.story})
    nemesis = setting.nemesis or "none"
    faults = [FaultSpec.of(word).fault for word in parse_values.nemesis(nemesis)]
    given["wire_clients"] = any(fault.needs == CLIENTS for fault in faults)
    given["transactions"] = setting.delivery == "transactional"
    given |= {"nemesis": nemesis, "duration": duration_s}
    given |= {"group_protocol": setting.group_protocol} if setting.group_protocol else {}
    return requested_plan(given | {"share": setting.share})


def grouped(cells: Sequence[MatrixCell], *, duration_s: float) -> list[list[MatrixCell]]:
    """Group the cells that can share a cluster; the group whose cluster starts slowest is first."""
    groups: dict[ClusterKey, list[MatrixCell]] = {}
    for cell in cells:
        groups.setdefault(ClusterKey.of(plan_of(cell, duration_s=duration_s)), []).append(cell)
    slowest = sorted(groups, key=lambda key: release(key.kafka).coordination != "kraft")
    return [groups[key] for key in slowest]


def _check(axes: Axes) -> None:
    for kafka in axes.kafkas:
        release(kafka)
    for story in axes.stories:
        find_story(story)
    for word in itertools.chain(*axes.nemeses):
        FaultSpec.of(word)
    if any(axes.nemeses):
        check_duration(axes.duration_s)
    for driver in axes.drivers:
        find_driver(driver)
    for protocol in filter(None, axes.group_protocols):
        parse_values.group(0, protocol)
    libraries = (*axes.clients, *axes.reader_clients)
    for client, kafka in itertools.product(libraries, axes.kafkas):
        read_client(client, kafka)


def _settings(axes: Axes) -> Iterator[MatrixSetting]:
    happenings: list[tuple[str | None, str | None, Delivery, str, int]] = [
        (story, None, delivery, "", 0)
        for story in axes.stories
        for delivery in axes.deliveries or (_own_delivery(story, axes.kafkas[0]),)
    ]
    groups = itertools.product(axes.group_protocols, axes.shares)
    mixes = itertools.product(axes.nemeses, axes.deliveries or (PLAIN,), groups)
    happenings += [(None, ",".join(faults), delivery, *group) for faults, delivery, group in mixes]
    for (
        story,
        nemesis,
        delivery,
        protocol,
        share,
    ), driver, client, reader_client, acks, min_isr, unclean, kafka, seed in itertools.product(
        dict.fromkeys(happenings),
        dict.fromkeys(axes.drivers),
        dict.fromkeys(axes.clients),
        dict.fromkeys(axes.reader_clients),
        dict.fromkeys(axes.acks),
        dict.fromkeys(axes.min_isrs),
        dict.fromkeys(axes.uncleans),
        sorted(set(axes.kafkas), key=list(CATALOGUE).index),
        dict.fromkeys(axes.seeds),
    ):
        yield MatrixSetting(
            kafka=kafka,
            driver=driver,
            story=story,
            nemesis=nemesis,
            acks=acks,
            min_isr=min_isr,
            unclean=unclean,
            seed=seed,
            client=client,
            reader_client=reader_client,
            delivery=delivery,
            group_protocol=protocol,
            share=share,
        )


def _own_delivery(story: str, kafka: str) -> Delivery:
    return delivery_of(find_story(story).plan(kafka).workload)


def _obstacle(setting: MatrixSetting, duration_s: float) -> str:
    plan = plan_of(setting, duration_s=duration_s)
    if (delivery := delivery_of(plan.workload)) != setting.delivery:
        return f"the producers of {setting.story} are {delivery}"
    try:
        check_plan(plan)
    except UsageError as error:
        return f"{error.message}: {error.hint.rstrip('.')}" if error.hint else error.message
    return ""


def _in_a_name(client: str) -> str:
    return re.sub(r"[^\w.]+", "-", client).strip("-")


def _name(setting: MatrixSetting) -> str:
    """Return the name of a run's directory. Equal settings have equal names."""
    happened = setting.happened.replace(",", "+").replace(" ", "-")
    elections = "unclean" if setting.unclean else "clean"
    client = "" if setting.client == LIBRDKAFKA else f"-{_in_a_name(setting.client)}"
    readers = setting.reader_client
    client += "" if readers == LIBRDKAFKA else f"-readers-{_in_a_name(readers)}"
    as_ever = setting.delivery == PLAIN or (setting.story and setting.delivery == "transactional")
    delivery = "" if as_ever else f"-{setting.delivery}"
    client += f"-{setting.group_protocol}" if setting.group_protocol else ""
    client += f"-share-{setting.share}" if setting.share else ""
    return (
        f"{setting.kafka}-{happened}-acks-{setting.acks}-isr-{setting.min_isr}-{elections}"
        f"-{setting.driver}{client}{delivery}-seed-{setting.seed}"
    )
