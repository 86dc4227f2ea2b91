"""The pytest plugin on real brokers: the example project from a wheel, and what Ctrl-C leaves."""

import os
import shutil
import signal
import site
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.store import Run
from tests.kafka.test_command import await_family, await_gone, await_phase

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
PYTEST = ["-m", "pytest", "-p", "no:cacheprovider"]


def start(
    words: Sequence[str], temporary: Path, *, folder: Path, python: Path
) -> "subprocess.Popen[str]":
    """Start pytest, which makes its temporary directories in one that it need not share.

    In the usual place, pytest removes what older sessions left before it ends, which takes minutes
    after tests of many brokers.
    """
    return subprocess.Popen(
        [python, *PYTEST, f"--basetemp={temporary / 'pytest'}", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(words: Sequence[str], temporary: Path, *, folder: Path, python: Path) -> tuple[int, str]:
    process = start(words, temporary, folder=folder, python=python)
    out, _ = process.communicate(timeout=500)
    return process.returncode, out


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment that has Highwater from a built wheel.

    Everything else comes from this environment, so as not to fetch half a gigabyte again.
    """
    room = tmp_path_factory.mktemp("installed")
    folder = room / "venv"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", room, ROOT], check=True)
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    (wheel,) = room.glob("highwater_kafka-*.whl")
    subprocess.run([*pip, "--python", python, "install", "--no-deps", wheel], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    assert (packages / "highwater").is_dir()
    assert (packages / "highwater" / "counterexamples" / "elected-again-4.3.1.json").is_file()
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()))
    return python


@pytest.mark.nightly
def test_the_example_works_from_a_wheel_outside_the_checkout(
    installed: Path, tmp_path: Path
) -> None:
    project = tmp_path / "example"
    shutil.copytree(ROOT / "docs" / "examples", project, ignore=shutil.ignore_patterns("store"))
    words = [f"--highwater-kafka=0.10.2.2,{MODERN}", "-k", "stays", "--junitxml=junit.xml"]
    code, out = run(words, tmp_path, folder=project, python=installed)
    assert code == pytest.ExitCode.TESTS_FAILED, out
    assert "1 failed, 1 passed" in out
    for said in (
        "PromiseBroken: Kafka 0.10.2.2 lost 1 of 4 acknowledged records",
        "m3, acknowledged with acks=all at offset 3",
        "repeat: highwater run --kafka 0.10.2.2 --acks all --min-isr 1 --story loss --seed 0",
        "Highwater: what was lost",
    ):
        assert said in out
    shown = [line.split() for line in out.splitlines() if line.endswith("report.html")]
    assert [words[0] for words in shown if words[1:2] == ["local"]] == ["0.10.2.2", MODERN]
    found = {case.get("name"): _properties(case) for case in _cases(project / "junit.xml")}
    old, new = found.values()
    assert (old["kafka"], old["verdict"], old["lost"], old["acknowledged"]) == (
        "0.10.2.2",
        "invalid",
        "1",
        "4",
    )
    assert (new["kafka"], new["verdict"], new["lost"]) == (MODERN, "valid", "0")
    assert Path(old["report"]).is_relative_to(project / "store")
    assert Path(old["report"]).is_file()


ROOMS = ("harness", "nemesis", "checkers", "clusters", "reports")
OURS = f"""
import pytest
from highwater import Cluster, KafkaRun
{"import " + ", ".join(ROOMS)}

@pytest.mark.parametrize("room", [harness, nemesis, checkers, clusters, reports])
def test_ours(room): assert room.OWNER == "us"

@pytest.mark.kafka("{MODERN}")
def test_brokers(kafka_cluster: Cluster): assert len(kafka_cluster.brokers) == 3

@pytest.mark.kafka("{MODERN}")
def test_judged(kafka_run: KafkaRun):
    assert kafka_run(nemesis="none", duration="1s").verdict == "valid"
"""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["-m", "pytest"], []),
        (["-P", "-m", "pytest"], ["-k", "not judged"]),
    ],
    ids=["python -m pytest", "pytest"],
)
def test_a_project_with_folders_of_our_names_is_not_disturbed(
    installed: Path, tmp_path: Path, command: list[str], words: list[str]
) -> None:
    """``-P`` keeps the working folder from the path, as the command ``pytest`` does."""
    project = tmp_path / "project"
    for room in ROOMS:
        (project / room).mkdir(parents=True)
        (project / room / "__init__.py").write_text("OWNER = 'us'\n")
    (project / "conftest.py").touch()  # brings the project's folder to the path, as many have it
    (project / "tests").mkdir()
    (project / "tests" / "test_ours.py").write_text(OURS)
    done = subprocess.run(
        [installed, *command, "-q", "-p", "no:cacheprovider", *words],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert f"{6 if words else 7} passed" in done.stdout


def test_the_wheel_has_one_package(installed: Path) -> None:
    (wheel,) = installed.parents[2].glob("highwater_kafka-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name.partition("/")[0] for name in archive.namelist()}
        assert {f"highwater/{room}/__init__.py" for room in ROOMS} <= set(archive.namelist())
    assert {name for name in names if not name.endswith(".dist-info")} == {"highwater"}


@pytest.mark.nightly
def test_a_package_adds_a_fault_and_a_checker(tmp_path: Path) -> None:
    extension, packages = tmp_path / "extension", tmp_path / "packages"
    shutil.copytree(ROOT / "docs" / "examples" / "extension", extension)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run(
        [*pip, "install", "--no-deps", "--target", str(packages), str(extension)], check=True
    )
    words = f"run --kafka {MODERN} --partitions 3 --nemesis stumble --for 8s --store store"
    command = [sys.executable, "-m", "highwater", *words.split()]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    judged = Run(tmp_path / "store" / "latest").verdict()
    assert (judged.verdict, judged.counts["late-acknowledgement"] > 0) == ("invalid", True)
    assert "stumble" in judged.happened
    said = [one.sentence for one in judged.anomalies if one.kind == "late-acknowledgement"]
    assert said[0].startswith("producer-")
    assert " s for the acknowledgement of " in said[0]
    # Who does not have the package can report its runs all the same.
    command = [sys.executable, "-m", "highwater", "report", str(tmp_path / "store" / "latest")]
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    told = [line for line in again.stderr.splitlines() if not line.startswith("writing pages ")]
    assert (again.returncode, told) == (0, [])  # it says so after a while, on a busy machine


@pytest.mark.spark
def test_ctrl_c_leaves_nothing_and_a_broker_that_dies_at_start_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "test_stopped.py").write_text(
        """
import signal
from msgspec.structs import replace

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it

def test_broker_that_cannot_start(kafka_run):
    plan = kafka_run.plan(nemesis="none", duration="60s")
    kafka_run(replace(plan, broker_config={"broker.id": "many"}))

def test_long(kafka_cluster, kafka_run):
    kafka_run(nemesis="none", duration="60s")
"""
    )
    words = ["--highwater-kafka=0.10.2.2", "--highwater-store=store"]
    process = start(words, tmp_path, folder=tmp_path, python=Path(sys.executable))
    await_phase(tmp_path / "store", "running", process)
    family = await_family(process, brokers=6)
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, out
    await_gone(family)
    assert "ERROR at setup of test_broker_that_cannot_start[0.10.2.2]" in out
    assert "HarnessError: " in out
    assert "broker.id" in out
    assert "KeyboardInterrupt" in out


@pytest.mark.docker
@pytest.mark.usefixtures("docker")
@pytest.mark.nightly
def test_the_story_for_both_drivers_goes_alike_in_containers(tmp_path: Path) -> None:
    words = ["-k", "story", "--highwater-driver=docker", f"--highwater-store={tmp_path}"]
    junit = tmp_path / "junit.xml"
    module = "tests/kafka/test_both_drivers.py"
    code, out = run(
        [module, *words, f"--junitxml={junit}"],
        tmp_path,
        folder=ROOT,
        python=Path(sys.executable),
    )
    assert code == pytest.ExitCode.OK, out
    runs = [_properties(case) for case in _cases(junit) if case.find("properties") is not None]
    assert {one["driver"] for one in runs} == {"docker"}
    assert [one["verdict"] for one in runs] == ["invalid", "valid"]


def _cases(path: Path) -> list["ET.Element[str]"]:
    return list(ET.parse(path).getroot().iter("testcase"))  # noqa: S314 - pytest has just written it


def _properties(case: "ET.Element[str]") -> dict[str, str]:
    return {one.attrib["name"]: one.attrib["value"] for one in case.iter("property")}
