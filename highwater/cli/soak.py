"""The command ``highwater soak``: perform random runs for hours, and summarise them."""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from highwater import console
from highwater.cli.options.common import (
    DEFAULT_STORE,
    StoreOption,
    group_of,
    spark_options,
    takes,
)
from highwater.harness.base import limits
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.runs import parse_values
from highwater.harness.runs.options import options_of
from highwater.harness.runs.plan import Plan

if TYPE_CHECKING:
    from highwater.campaigns.soak_run import Bounds

_Library = Literal["librdkafka", "java", "kafka-python", "aiokafka"]


def _bounds(
    *,
    lasts: Annotated[str, Option("--for", help="Start no run after this time.")] = "12h",
    first: Annotated[int, Option(min=0, help="Number of the first run.")] = 0,
    runs: Annotated[int | None, Option(min=1, help="Most runs.", show_default="no limit")] = None,
    jobs: Annotated[int, Option(min=1, max=8, help="Clusters at the same time.")] = 1,
    keep_all: Annotated[
        bool, Option("--keep-all", help="Also keep runs without anomalies.")
    ] = False,
) -> "Bounds":
    from highwater.campaigns.soak_run import Bounds

    return Bounds(
        seconds=parse_values.duration(lasts), first=first, runs=runs, jobs=jobs, keep_all=keep_all
    )


@takes(
    bounds=_bounds,
    given=group_of(
        options_of(Plan),
        *("seed", "cluster", "controllers", "group_protocol"),
        seed="Seed; with a run's number it determines the run.",
        cluster="Cluster driver.",
    ),
    spark=spark_options,
)
def soak(  # noqa: PLR0913 - a command's options are its arguments
    *,
    bounds: "Bounds",
    kafka: Annotated[str, Option(help="Releases, separated by commas, or all.")] = "all",
    given: dict[str, Any],
    client: Annotated[_Library, Option(help="Library of the producers.")] = "librdkafka",
    reader_client: Annotated[
        _Library,
        Option("--reader-client", help="Library of the readers, and of the members of groups."),
    ] = "librdkafka",
    each_lasts: Annotated[
        str | None,
        Option(
            "--each",
            help=f"Duration of the faults in a run, up to {limits.FAULTS_S.lasting.split()[-1]}. "
            " [default: 12 to 45 s, by the seed]",
        ),
    ] = None,
    steer: Annotated[
        bool,
        Option(
            "--steer",
            help="Lead every second group of runs to broken promises and to situations that no run "
            "of the soak has reached.",
        ),
    ] = False,
    name: Annotated[
        str | None, Option(help="Name of the soak's folder in the store.  [default: soak-<seed>]")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: Annotated[bool, Option("--json", help="Print the rows as JSON.")] = False,
    spark: SparkOptions,
) -> None:
    """Run random schedules on many releases; continue an earlier soak of the same name.

    Exit codes: 1 a run has unexplained findings, 3 a run could not be judged, else 0.
    """
    from highwater.campaigns.soak_metrics import write_metrics
    from highwater.campaigns.soak_results import Soak, SoakFolder, SoakRow
    from highwater.campaigns.soak_run import OVERALL, perform
    from highwater.campaigns.soak_summary import exit_code, markdown

    settings = _settings(kafka, each_lasts, given)
    whole = Soak(client=client, reader_client=reader_client, steer=steer, **settings)
    folder = SoakFolder(store / (name or f"soak-{whole.seed}"))

    def write(rows: list[SoakRow]) -> None:
        (folder.path / "summary.md").write_text(markdown(whole, rows), encoding="utf-8")
        write_metrics(folder.path / "metrics.prom", rows)

    with console.progress(plain=(OVERALL,)) as progress:
        rows = perform(folder, whole, bounds, spark=spark, progress=progress, on_rows=write)
    write(rows)
    if as_json:
        console.print_json(rows)
    else:
        sys.stdout.write(markdown(whole, rows))
    raise typer.Exit(exit_code(rows))


def _settings(kafka: str, each_lasts: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of ``Soak`` that these options set. Raises ``UsageError``."""
    from highwater.campaigns.nightly_plan import find_drivers, find_releases
    from highwater.nemesis.schedules.generator import check_duration
    from highwater.runtime.preflight import check_controllers, check_group_protocol

    [driver] = find_drivers([given.pop("cluster", "local")])
    releases = find_releases(parse_values.names(kafka))
    each_s = None if each_lasts is None else parse_values.lasting(each_lasts)
    if each_s is not None:
        check_duration(each_s)
    check_controllers(given.get("controllers", 1))
    if "group_protocol" in given:
        protocol = parse_values.group_protocol(given["group_protocol"])
        for kafka_release in releases:
            check_group_protocol(protocol, kafka_release)
    kafkas = tuple(release.name for release in releases if driver in release.drivers)
    return {"seed": 0, **given, "kafkas": kafkas, "driver": driver, "each_s": each_s}
