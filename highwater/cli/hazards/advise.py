"""The command ``highwater advise``: compare a cluster with the catalogue of hazards."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from rich.text import Text
from typer import Argument, Option

from highwater import console
from highwater.checkers.hazards.conditions import END, NEWEST, coordination_name
from highwater.checkers.hazards.evaluate import (
    NAMED_MAX,
    Advice,
    Status,
    by_reason,
    by_topic,
    evaluate,
    headline,
    named,
    newer,
    settles_most,
    unread,
    worst,
)
from highwater.cli.external import KubernetesOption
from highwater.cli.options.common import JsonOption, takes
from highwater.harness.base.errors import UsageError
from highwater.harness.base.exit_codes import BROKEN, OK, UNKNOWN
from highwater.harness.base.files import require_writable
from highwater.harness.base.wording import count
from highwater.harness.releases.client_choice import LIBRARIES, LIBRDKAFKA
from highwater.harness.releases.cluster_facts import ClusterFacts, dotted, numbers
from highwater.harness.releases.famous_cluster_ids import FAMOUS_CLUSTER_IDS
from highwater.harness.runs import parse_values

CODES: Final[dict[Status, int]] = {
    "can lose": BROKEN,
    "cannot tell": UNKNOWN,
    "guarded": OK,
    "not affected": OK,
}
_COLOURS: Final[dict[Status, str]] = {
    "can lose": "red",
    "cannot tell": "yellow",
    "guarded": "green",
    "not affected": "green",
}
_OLDEST_CLIENT: Final = (0, 8)
_OTHER_LIBRARIES: Final = ("kafkajs", "platformatic")
"""Client libraries with known problems, which the user runs through a client driver
(docs/driver.md)."""


def _duration(text: str) -> Any:  # noqa: ANN401 - as typer.Option is typed
    return Option(metavar="DURATION", help=text)


def _answers(  # noqa: PLR0913 - a command's options are its arguments
    *,
    acks: Annotated[
        str | None, Option(help="The weakest acks of any producer: 0, 1 or all (-1 is all).")
    ] = None,
    power: Annotated[
        Literal["shared", "separate", "safe"] | None,
        Option(
            help="Power supply of the brokers: shared by all, separate, or safe (written data "
            "survives a power failure)."
        ),
    ] = None,
    transactions: Annotated[
        Literal["none", "librdkafka", "java", "kafka-python", "aiokafka", "platformatic"] | None,
        Option(
            help="Library of the transactional clients: librdkafka (usual in Python, Go, C# and "
            "Node), java (Kafka's own), or another library."
        ),
    ] = None,
    client: Annotated[
        str | None,
        Option(
            help="Library of the producers: librdkafka, kafka-python, aiokafka, kafkajs, "
            "platformatic, or a release of Java's clients: java:3.9.0."
        ),
    ] = None,
    offset_reset: Annotated[
        Literal["earliest", "latest", "by_duration", "none"] | None,
        Option(help="auto.offset.reset of consumers in groups; latest is Kafka's default."),
    ] = None,
    group_protocol: Annotated[
        Literal["classic", "consumer"] | None,
        Option(help="group.protocol of consumers in groups; classic is Kafka's default."),
    ] = None,
    record_age: Annotated[
        str | None, _duration("Greatest age of a new record's timestamp: 720h.")
    ] = None,
    recreated: Annotated[
        Literal["yes", "no"] | None,
        Option(help="Whether topics are deleted and created again."),
    ] = None,
    controller_unclean: Annotated[
        Literal["yes", "no"] | None,
        Option(help="unclean.leader.election.enable in the settings of the KRaft controllers."),
    ] = None,
    away: Annotated[str | None, _duration("Longest time that a group has no members: 72h.")] = None,
    broker_away: Annotated[
        str | None, _duration("Longest time that a broker is down: 48h.")
    ] = None,
    disks: Annotated[
        Literal["local", "network"] | None,
        Option(
            help="Disks of brokers: local (lost with their machine), or network (not lost with it)."
        ),
    ] = None,
) -> dict[str, str]:
    _check_client(client)
    answers = {
        "acks": acks and parse_values.acks(acks),
        "power": power,
        "transactions": transactions,
        "client": client,
        "offset-reset": offset_reset,
        "group-protocol": group_protocol,
        "record-age": record_age and str(parse_values.duration(record_age)),
        "recreated": recreated,
        "controller-unclean": controller_unclean,
        "away": away and str(parse_values.duration(away)),
        "broker-away": broker_away and str(parse_values.duration(broker_away)),
        "disks": disks,
    }
    return {name: value for name, value in answers.items() if value}


def _cluster(
    files: Annotated[
        list[Path] | None,
        Argument(
            metavar="[FILE]...",
            help="Files of one cluster to read instead of a running cluster: server.properties, "
            "Strimzi's resources or compose files.",
        ),
    ] = None,
    *,
    bootstrap: Annotated[
        str | None,
        Option(
            metavar="HOST:PORT",
            help="Brokers of the cluster, separated by commas.",
        ),
    ] = None,
    kubernetes: KubernetesOption = None,
    command_config: Annotated[
        Path | None,
        Option(metavar="FILE", help="Kafka's client properties, for TLS and SASL."),
    ] = None,
    topic: Annotated[
        str, Option(metavar="PATTERN", help="Topics to examine; patterns may contain * and ?.")
    ] = "*",
    internal: Annotated[
        bool, Option("--internal", help="Also examine Kafka's internal topics (__…).")
    ] = False,
    kafka: Annotated[
        str | None,
        Option(
            help="Release of the brokers. By default, a range of releases from the requests that "
            "they support."
        ),
    ] = None,
) -> Callable[[], ClusterFacts]:
    """Return a function that reads the facts of a cluster, from brokers or from files."""
    from highwater.clusters.external.client_properties import read_properties
    from highwater.clusters.external.cluster_survey import ClusterSurvey
    from highwater.clusters.external.described_cluster import read_files
    from highwater.clusters.external.release_ranges import named_release
    from highwater.clusters.external.security import dialer

    if [bool(files), bool(bootstrap), bool(kubernetes)].count(True) != 1:
        raise UsageError(
            "the cluster needs files, or brokers by --bootstrap or --kubernetes",
            hint="Name files or brokers, not both.",
        )
    named = named_release(kafka) if kafka else None
    if files and command_config is not None:
        raise UsageError(
            "--command-config is only for a running cluster, not for files",
            hint="Leave it out, or name brokers by --bootstrap instead of files.",
        )
    if files:
        return partial(read_files, files, named, pattern=topic, internal=internal)
    access: Mapping[str, str] = read_properties(command_config) if command_config else {}
    if kubernetes:
        from highwater.clusters.kubernetes.discovery import locate

        located = locate(kubernetes)
        bootstrap, access = located.access.bootstrap, {**located.access.client, **access}
        named = named or (named_release(located.release) if located.release else None)
    survey = ClusterSurvey(bootstrap or "", dialer(access, origin=str(command_config)), named)
    return partial(survey.read, pattern=topic, internal=internal)


@takes(read=_cluster, answers=_answers)
def advise(
    *,
    read: Callable[[], ClusterFacts],
    answers: dict[str, str],
    report: Annotated[Path | None, Option(metavar="FILE", help="Write an HTML page, too.")] = None,
    baseline: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Earlier --json output: the exit code counts only new hazards.",
        ),
    ] = None,
    show_all: Annotated[
        bool, Option("--all", help="Also show the hazards that do not apply, with the reason.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the known hazards that apply to a cluster, from its brokers or from files.

    The cluster is not changed. Exit codes: 0 no record can be lost, 1 records can be lost, 3
    unknown, 4 the cluster could not be read.
    """
    if report is not None:
        require_writable(report, "--report")
    before = _read_baseline(baseline) if baseline else None
    with console.waiting("reading the cluster"):
        cluster = read()
    every = evaluate(cluster, answers)
    fresh = every if before is None else newer(every, before)
    if report is not None:
        from highwater.reports.pages.advice import write

        write(cluster, every, summary(cluster), report)
    if as_json:
        console.print_json(document(cluster, every))
    else:
        _show(cluster, every, show_all=show_all)
        if baseline is not None:
            new = ", ".join(advice.hazard.id for advice in fresh) or "nothing"
            console.out.print(Text(f"New since {baseline}: {new}."))
        if report is not None:
            console.out.print(f"page: {report}")
    raise typer.Exit(CODES[worst(fresh)])


def _read_baseline(path: Path) -> dict[str, tuple[Status, frozenset[str]]]:
    """Return each hazard's status and topics from an earlier output of ``--json``."""
    try:
        hazards = json.loads(path.read_text(encoding="utf-8"))["hazards"]
        return {row["id"]: (row["status"], frozenset(row["topics"])) for row in hazards}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"--baseline {path} is not an output of advise --json", hint=str(error)
        ) from error


def _check_client(word: str | None) -> None:
    library, _, version = (word or LIBRDKAFKA).partition(":")
    if library not in (*LIBRARIES, *_OTHER_LIBRARIES) or (
        version and not re.fullmatch(r"\d+(\.\d+){1,3}", version)
    ):
        raise UsageError(f"no client is called {word!r}", hint="Use librdkafka, or java:3.9.0.")
    if version and not _OLDEST_CLIENT <= numbers(version) < END:
        raise UsageError(
            f"Highwater does not know Java clients of {version}",
            hint=f"The newest known release is {dotted(NEWEST)}.",
        )


def document(cluster: ClusterFacts, every: Sequence[Advice]) -> dict[str, Any]:
    """Return the advice (``every``) and the cluster's facts as an object for JSON output."""
    return {
        "status": worst(every),
        "cluster": {
            "id": cluster.cluster_id,
            "coordination": cluster.coordination,
            "brokers": [
                {
                    "id": broker.id,
                    "address": broker.address,
                    "rack": broker.rack,
                    "release": str(broker.release) if broker.release else None,
                }
                for broker in cluster.brokers
            ],
            "controllers": cluster.controllers,
            "features": dict(cluster.features) if cluster.features is not None else None,
            "topics": len(cluster.topics),
            "partitions": sum(topic.partitions for topic in cluster.topics),
        },
        "not_seen": list(cluster.unseen),
        "requests": dict(cluster.requests),
        "hazards": [
            {
                "id": advice.hazard.id,
                "status": advice.status,
                "title": advice.hazard.title,
                "loses": advice.hazard.loses,
                "topics": list(advice.topics),
                "reasons": list(advice.reasons),
                "schedule": advice.hazard.schedule,
                "cure": advice.hazard.cure,
                "cost": advice.hazard.cost,
                "mend": list(advice.mend),
                "command": advice.command or None,
                "campaign": advice.campaign or None,
            }
            for advice in every
        ],
    }


def _show(cluster: ClusterFacts, every: Sequence[Advice], *, show_all: bool) -> None:
    say = console.out.print
    for line in summary(cluster):
        say(Text(line))
    for why in cluster.unseen:
        say(Text(f"Not read from the cluster: {why}.", style="yellow"))
    say(Text(headline(every), style="bold"))
    for advice in every:
        if advice.status == "can lose":
            _show_loss(advice)
    _show_by_reason(every, "cannot tell")
    if settling := settles_most(every):
        say(Text(f"{settling} would decide most of these hazards.", style="yellow"))
    _show_by_reason(every, "guarded")
    others = sum(advice.status == "not affected" for advice in every)
    if show_all:
        _show_by_reason(every, "not affected")
    elif others:
        say(
            _heading("not affected"),
            Text(f"{count(others, 'other hazard')}: --all shows the reasons"),
        )
    for losing, topics in by_topic(every).items():
        say(Text(f"{named(topics)} can lose records by {', '.join(losing)}."))


def _show_by_reason(every: Sequence[Advice], status: Status) -> None:
    """Print the hazards with a status; hazards with the same reason share a line."""
    needs = "needs " if status == "cannot tell" else ""
    for reason, hazards in by_reason(every, status).items():
        console.out.print(_heading(status), Text(f"{', '.join(hazards)}: {needs}{reason}"))


def _heading(status: Status) -> Text:
    return Text(status.upper(), style=f"bold {_COLOURS[status]}")


def _show_loss(advice: Advice) -> None:
    say, hazard = console.out.print, advice.hazard
    say(_heading(advice.status), Text(f"{hazard.id}: {hazard.title}"))
    say(Text(f"  topics: {named(advice.topics)}"))
    say(Text(f"  loses:  {hazard.loses}"))
    say(Text(f"  how:    {hazard.schedule}"))
    say(Text(f"  fix:    {hazard.cure}"))
    say(Text(f"  costs:  {hazard.cost}"))
    for mend in advice.mend[:NAMED_MAX]:
        say(Text(f"  by:     {mend}"))
    say(Text(f"  see it: {advice.command}"))
    if advice.campaign:
        say(Text(f"  on it:  {advice.campaign}"))


def summary(cluster: ClusterFacts) -> list[str]:
    """Return sentences about the cluster's size, releases, features and unread settings."""
    partitions = sum(topic.partitions for topic in cluster.topics)
    kind = coordination_name(cluster.coordination)
    releases = ", ".join(
        dict.fromkeys(str(broker.release or "not recognised") for broker in cluster.brokers)
    )
    racks = {broker.rack for broker in cluster.brokers if broker.rack}
    none = "no racks" if cluster.running else "no broker.rack"
    controllers = (
        f", {count(cluster.controllers, 'controller')}" if cluster.controllers is not None else ""
    )
    size = (
        f"Cluster {cluster.cluster_id} on {kind}: {count(len(cluster.brokers), 'broker')}"
        f" ({releases}), {count(len(racks), 'rack') if racks else none}{controllers},"
        f" {count(len(cluster.topics), 'topic')}, {count(partitions, 'partition')}."
    )
    lines = [size]
    if cluster.features:
        lines.append(
            "Features: "
            + ", ".join(f"{name}={level}" for name, level in sorted(cluster.features.items()))
            + "."
        )
    if len({str(broker.release) for broker in cluster.brokers}) > 1:
        lines.append(
            "The brokers run different releases; the list has the hazards of every release."
        )
    if cluster.cluster_id in FAMOUS_CLUSTER_IDS:
        lines.append(
            f"The cluster id {cluster.cluster_id} is used in quickstarts or compose files: other "
            "clusters may have the same id, so it does not identify this cluster."
        )
    if cluster.defaults:
        defaults = ", ".join(f"{name}={value}" for name, value in sorted(cluster.defaults.items()))
        lines.append(f"Not given, so Kafka's defaults are assumed: {defaults}.")
    return [*lines, *unread(cluster)]
