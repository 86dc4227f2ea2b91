"""A matrix on paper and on disk: axes, what is skipped and why, groups, resuming, rows, codes."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from highwater.campaigns.matrix_plan import grouped, lay_out, plan_of
from highwater.campaigns.matrix_run import unfinished, write_matrix_page
from highwater.cli.matrix import exit_code, table
from highwater.harness.base.errors import StoreError, UsageError
from highwater.harness.base.exit_codes import BROKEN, FAILED, OK, UNKNOWN
from highwater.harness.campaigns.matrix_cells import Axes, Matrix, MatrixFolder, MatrixRow
from highwater.harness.campaigns.matrix_table import SCHEMA
from highwater.harness.releases.catalogue import CATALOGUE, release
from highwater.harness.runs.store import RunStatus
from highwater.reports.pages.matrix import headline, sums
from highwater.runtime.cluster_pool import ClusterKey
from tests.support.matrices import AXES, judged, planned, row

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BOTH = ("loss", "divergence")
Plans = dict[str, list[object]]
"""Settings of workloads to their values, plan by plan."""


def axes(**fields: object) -> Axes:
    base = Axes(kafkas=("4.3.1", "0.10.2.2"), stories=("loss",))
    return msgspec.structs.replace(base, **fields)


def test_every_combination_is_a_cell_once_and_the_oldest_release_comes_first() -> None:
    laid = lay_out(axes(acks=("all", "1", "1"), seeds=(1, 2), stories=BOTH))
    assert len(laid.cells) == len({cell.run for cell in laid.cells}) == 2 * 2 * 2 * 2
    assert [cell.kafka for cell in laid.cells][:4] == ["0.10.2.2"] * 2 + ["4.3.1"] * 2
    assert laid.skipped == ()


def test_a_cell_stands_for_the_run_that_it_names() -> None:
    laid = lay_out(axes(nemeses=(("kill", "pause"), ()), min_isrs=(2,), uncleans=(True,)))
    plan = plan_of(planned(laid, kafka="4.3.1", nemesis="kill,pause")[0], duration_s=7)
    assert (plan.nemesis, plan.duration_s, plan.story) == (("kill", "pause"), 7, None)
    assert plan.topic.settings()["min.insync.replicas"] == "2"
    assert plan.topic.unclean_leader_election
    calm = plan_of(planned(laid, kafka="4.3.1", nemesis="")[0], duration_s=7)
    assert calm.nemesis == ()


def test_clients_pass_the_wire_where_a_fault_needs_it() -> None:
    laid = lay_out(axes(stories=(), nemeses=(("kill", "lose-answers=2"), ("kill",))))
    assert laid.skipped == ()
    plans = {cell.nemesis: plan_of(cell, duration_s=7) for cell in laid.cells}
    assert {name: plan.wire_clients for name, plan in plans.items()} == {
        "kill,lose-answers=2": True,
        "kill": False,
    }


def test_what_cannot_be_run_is_skipped_with_its_reason() -> None:
    laid = lay_out(axes(nemeses=(("kill",),), min_isrs=(1, 2)))
    assert {(one.story, one.min_isr) for one in laid.skipped} == {("loss", 2)}
    assert all("one replica alive" in one.reason for one in laid.skipped)
    assert all("Use --min-isr 1, or a nemesis" in one.reason for one in laid.skipped)
    assert {(one.happened, one.min_isr) for one in laid.cells} == {
        ("loss", 1),
        ("kill", 1),
        ("kill", 2),
    }


def test_clients_are_an_axis_and_share_a_cluster() -> None:
    clients = ("librdkafka", "java", "java:3.9.2")
    laid = lay_out(axes(kafkas=("4.3.1",), stories=("torn-transaction",), clients=clients))
    assert [(cell.kafka, cell.client) for cell in laid.cells] == [
        ("4.3.1", "librdkafka"),
        ("4.3.1", "java"),
        ("4.3.1", "java:3.9.2"),
    ]
    assert {cell.run.partition("local")[2] for cell in laid.cells} == {
        "-seed-0",
        "-java-seed-0",
        "-java-3.9.2-seed-0",
    }
    assert len(grouped(laid.cells, duration_s=0)) == 1
    assert [plan_of(cell, duration_s=0).client for cell in laid.cells] == [
        cell.client for cell in laid.cells
    ]


def test_how_producers_deliver_is_an_axis() -> None:
    laid = lay_out(
        axes(
            kafkas=("0.10.2.2", "4.3.1"),
            stories=("loss", "torn-transaction"),
            nemeses=(("kill",),),
            acks=("1", "all"),
            deliveries=("plain", "idempotent", "transactional"),
        )
    )
    random = [cell for cell in laid.cells if cell.nemesis == "kill" and cell.kafka == "4.3.1"]
    assert [(cell.delivery, cell.acks) for cell in random] == [
        ("plain", "1"),
        ("plain", "all"),
        ("idempotent", "all"),
        ("transactional", "all"),
    ]
    workloads = [plan_of(cell, duration_s=1).workload for cell in random]
    assert [(w.idempotence, w.transactions) for w in workloads[1:]] == [
        (False, False),
        (True, False),
        (True, True),
    ]
    assert {(cell.delivery, cell.kafka) for cell in planned(laid, story="torn-transaction")} == {
        ("transactional", "4.3.1")
    }
    assert ("0.10.2.2", "idempotent") not in {(cell.kafka, cell.delivery) for cell in laid.cells}
    reasons = {one.reason for one in laid.skipped if one.story == "torn-transaction"}
    assert "the producers of torn-transaction are transactional" in reasons


def test_a_release_is_skipped_on_a_driver_that_does_not_run_it() -> None:
    laid = lay_out(axes(kafkas=("0.9.0.1", "4.3.1"), drivers=("local", "docker")))
    assert [(one.kafka, one.driver) for one in laid.skipped] == [("0.9.0.1", "docker")]
    assert "Kafka 0.9.0.1 cannot run on 'docker'" in laid.skipped[0].reason


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kafkas": ("0.10.2.1",)}, r"0\.10\.2\.1"),
        ({"stories": ("los",)}, "los"),
        ({"nemeses": (("kill", "pau"),)}, "pau"),
        ({"drivers": ("podman",)}, "podman"),
        ({"clients": ("ruby",)}, "ruby"),
        ({"clients": ("java:9.9",)}, r"9\.9"),
        ({"stories": ()}, "no combination"),
        ({"min_isrs": (2, 3)}, "no combination"),
    ],
)
def test_what_nobody_knows_is_refused_before_anything_is_written(
    fields: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        lay_out(axes(**fields))
    assert refused.value.hint


def test_cells_that_can_share_a_cluster_are_together() -> None:
    laid = lay_out(AXES)
    groups = grouped(laid.cells, duration_s=30)
    keys = [{ClusterKey.of(plan_of(cell, duration_s=30)) for cell in group} for group in groups]
    assert all(len(each) == 1 for each in keys)
    assert len({key for each in keys for key in each}) == len(groups)
    assert sum(map(len, groups)) == len(laid.cells)
    # The stories have one set of broker settings, random schedules another.
    assert len(groups) == 2 * len(CATALOGUE)
    slow = [release(group[0].kafka).coordination == "kraft" for group in groups]
    assert slow == sorted(slow, reverse=True)


def test_only_cells_without_a_whole_run_are_left(tmp_path: Path) -> None:
    folder = MatrixFolder(tmp_path / "m")
    laid = lay_out(axes(acks=("1", "all")))
    folder.write(laid)
    whole, half, *fresh = laid.cells
    for cell, status in (
        (whole, RunStatus(phase="frozen", problems=("the window was missed",))),
        (half, RunStatus(phase="running")),
    ):
        run = folder.store.create(plan_of(cell, duration_s=1), now=NOW, name=cell.run)
        run.write_struct("status.json", status)
    assert unfinished(folder, folder.matrix()) == [half, *fresh]


def test_json_parquet_and_page_say_the_same(tmp_path: Path) -> None:
    folder = judged(tmp_path / "matrix")
    rows = folder.rows()
    table = pq.read_table(tmp_path / "matrix" / "cells.parquet")
    assert table.schema.equals(SCHEMA)
    assert tuple(SCHEMA.names) == tuple(sorted(SCHEMA.names, key=MatrixRow.__struct_fields__.index))
    assert set(SCHEMA.names) == set(MatrixRow.__struct_fields__)
    assert table.to_pylist() == msgspec.to_builtins(rows)
    html = write_matrix_page(folder).read_text("utf-8")
    assert html.count('class="cell ') == len(rows) + 4  # and the key's
    for one in rows:
        assert f'href="{one.report.replace("+", "%2B")}"' in html


def test_the_page_says_what_matters_with_denominators(tmp_path: Path) -> None:
    axes_of_stories = msgspec.structs.replace(AXES, nemeses=(), seeds=(0,))
    folder = judged(tmp_path / "matrix", axes_of_stories)
    html = write_matrix_page(folder).read_text("utf-8")
    old = sum(one.cuts_to_hw for one in CATALOGUE.values())
    assert f"{old} of {len(CATALOGUE)} Kafka releases lose records acknowledged" in html
    assert "2 runs could not be judged" in html
    assert "harness failed while booting: broker 2 died" in html
    assert "took 16.7 minutes" in html
    assert "A story leaves only one replica alive" in html
    assert html.count("not predicted") == 1
    assert html.count(">not judged<") == 2


def test_an_earlier_piece_of_a_night_has_a_smaller_number(tmp_path: Path) -> None:
    for name in ("1", "2", "10"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cells.json").write_text("[]")

    def before(name: str) -> list[str]:
        return [earlier for earlier, _ in MatrixFolder(tmp_path / name).earlier()]

    assert before("10") == ["2", "1"]
    assert before("2") == ["1"]


def test_that_a_promise_was_broken_is_said_once(tmp_path: Path) -> None:
    """Of one release the headline says it, of many the clauses below."""
    for kafkas in (("4.3.1",), ("0.10.2.2", "4.3.1")):
        folder = judged_all(tmp_path / str(len(kafkas)), axes(kafkas=kafkas, stories=BOTH))
        said = "; ".join((headline(folder.rows()), *sums(folder.rows(), folder.matrix())))
        assert said.count("broke a promise") == 1
        html = write_matrix_page(folder).read_text("utf-8")
        assert html.count("broke a promise") == 1


def judged_all(path: Path, of: Axes) -> MatrixFolder:
    """A matrix in which every run was judged."""
    folder = MatrixFolder(path)
    laid = lay_out(of)
    folder.write(laid)
    folder.write_rows([row(cell) for cell in laid.cells])
    return folder


def test_a_matrix_that_is_none_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not the directory of a matrix"):
        MatrixFolder.open("nowhere", tmp_path)
    (tmp_path / "matrix.json").write_text("{")
    with pytest.raises(StoreError, match=r"matrix\.json cannot be read"):
        MatrixFolder.open(tmp_path, tmp_path).matrix()
    laid = lay_out(axes())
    MatrixFolder(tmp_path).write(laid)
    assert MatrixFolder(tmp_path).matrix() == laid
    with pytest.raises(StoreError, match=r"no .*cells\.json") as missing:
        MatrixFolder(tmp_path).rows()
    assert "--resume" in missing.value.hint


@pytest.mark.parametrize(
    ("told", "code", "expected"),
    [
        ([{}], OK, OK),
        ([{"verdict": "invalid"}], BROKEN, OK),
        ([{"verdict": "invalid", "as_predicted": False}], BROKEN, BROKEN),
        ([{"as_predicted": False}], OK, BROKEN),
        ([{"model": "unexplained"}], OK, BROKEN),
        ([{"verdict": "invalid", "as_predicted": None}], BROKEN, BROKEN),
        ([{"verdict": "unknown", "as_predicted": False}], UNKNOWN, UNKNOWN),
        ([{"verdict": "unknown", "problem": "harness failed"}], FAILED, FAILED),
        ([{"verdict": "unknown"}, {"verdict": "invalid", "as_predicted": False}], BROKEN, BROKEN),
        ([{"verdict": "unknown"}, {"verdict": "unknown", "problem": "died"}], FAILED, FAILED),
    ],
)
def test_the_code_says_the_worst(told: list[dict[str, object]], code: int, expected: int) -> None:
    laid: Matrix = lay_out(axes())
    rows = [row(laid.cells[0], **{"verdict": "valid", **one}) for one in told]
    assert exit_code(rows, expect=False) == code
    assert exit_code(rows, expect=True) == expected


def test_the_models_word_stands_in_each_cell_and_in_the_json(tmp_path: Path) -> None:
    folder = judged(tmp_path)
    html = write_matrix_page(folder).read_text("utf-8")
    assert '<small class="odd invalid">unexplained</small>' in html
    assert '<small class="odd unknown">not reproduced</small>' in html
    assert '<small class="">explained</small>' in html
    rows = folder.rows()
    understood = sum(one.model in {"as-predicted", "explained"} for one in rows)
    assert f"the model explains {understood} of {len(rows):,} runs" in html
    assert pq.read_table(tmp_path / "cells.parquet")["model"].to_pylist() == [
        one.model for one in rows
    ]


def test_rows_from_before_there_was_a_model_are_read(tmp_path: Path) -> None:
    folder = judged(tmp_path)
    text = (tmp_path / "cells.json").read_text("utf-8")
    old = [{k: v for k, v in one.items() if k != "model"} for one in msgspec.json.decode(text)]
    (tmp_path / "cells.json").write_bytes(msgspec.json.encode(old))
    assert {one.model for one in folder.rows()} == {None}
    assert "the model explains" not in write_matrix_page(folder).read_text("utf-8")


@pytest.mark.parametrize(
    ("field", "values", "of_cells", "of_plans", "reason"),
    [
        (
            "group_protocol",
            ("classic", "consumer"),
            ["", "classic", "consumer"],
            {"subscribe": [0, 3, 3], "group_protocol": ["classic", "classic", "consumer"]},
            "do not support the consumer group protocol",
        ),
        ("share", (0, 2), [0, 0, 2], {"share": [0, 0, 2]}, "not support share groups"),
    ],
)
def test_groups_are_an_axis_of_random_runs_alone(
    field: str, values: tuple[object, ...], of_cells: list[object], of_plans: Plans, reason: str
) -> None:
    axis = {f"{field}s": values, "nemeses": (("kill",),)}
    laid = lay_out(axes(kafkas=("4.3.1",), stories=("loss",), **axis))
    assert [cell.happened for cell in laid.cells] == ["loss", "kill", "kill"]
    assert [getattr(cell, field) for cell in laid.cells] == of_cells
    plans = [plan_of(cell, duration_s=9).workload for cell in laid.cells]
    assert {name: [getattr(one, name) for one in plans] for name in of_plans} == of_plans
    assert len({cell.run for cell in laid.cells}) == len(laid.cells)
    assert len({cell.line for cell in laid.cells}) == len(laid.cells)
    older = lay_out(axes(kafkas=("3.9.2",), stories=(), **axis))
    assert [getattr(cell, field) for cell in older.cells] == [values[0]]
    assert reason in older.skipped[0].reason


def test_libraries_of_readers_are_an_axis() -> None:
    readers = ("librdkafka", "java:3.9.2", "aiokafka")
    laid = lay_out(
        axes(kafkas=("4.3.1",), stories=(), nemeses=(("kill",),), reader_clients=readers)
    )
    assert [cell.reader_client for cell in laid.cells] == [*readers]
    assert [plan_of(cell, duration_s=30).reader_client for cell in laid.cells] == [*readers]
    assert [cell.run.partition("-readers-")[2].partition("-seed")[0] for cell in laid.cells] == [
        "",
        "java-3.9.2",
        "aiokafka",
    ]


def test_the_terminal_has_a_row_for_what_there_is_more_of() -> None:
    laid = lay_out(Axes(kafkas=("3.9.2", "4.4.0"), nemeses=(("kill",),), acks=("0", "1", "all")))
    rows = [row(cell) for cell in laid.cells]
    down = table(rows)
    assert [column.header for column in down.columns] == ["", "3.9.2", "4.4.0"]
    assert [str(cell) for cell in down.columns[0].cells] == ["acks=0", "acks=1", "acks=all"]
    assert str(down.title).endswith(": kill, local, librdkafka, plain")
    few = table([cell for cell in rows if cell.acks != "0"])
    assert [column.header for column in few.columns] == ["Kafka", "acks=1", "acks=all"]
    assert [str(cell) for cell in few.columns[0].cells] == ["3.9.2", "4.4.0"]
    alone = table([cell for cell in rows if cell.acks == "1"])
    assert [column.header for column in alone.columns] == ["Kafka", "kill"]
