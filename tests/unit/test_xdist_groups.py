"""The groups in which three processes share the tests are those that the tests need."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.support.xdist_groups import DOCKER, ROOT, ByGroup, group, rank


@pytest.mark.nightly  # it imports every test of brokers
def test_every_file_that_starts_containers_is_in_one_group() -> None:
    words = ["-m", "pytest", "--collect-only", "-q", "-m", "docker", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, *words, "tests/kafka"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    files = {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}
    assert files == set(DOCKER), "tests/support/xdist_groups.py names them all"


def test_a_file_is_in_the_group_of_what_it_needs() -> None:
    assert {group(path) for path in DOCKER} == {"docker"}
    assert group("tests/unit/checkers/test_golden_runs.py") == "spark"
    assert group("tests/browser/test_questions.py") == "browser"
    assert group("tests/kafka/test_stories.py") == "tests/kafka/test_stories.py"
    assert (
        group("tests/unit/nemesis/faults/test_registry.py")
        == "tests/unit/nemesis/faults/test_registry.py"
    )


def test_the_longest_come_first() -> None:
    files = (
        "kafka/test_wire",
        "kafka/test_inspect",
        "kafka/test_loops",
        "unit/checkers/test_golden_runs",
        "unit/nemesis/faults/test_registry",
    )
    assert [rank(f"tests/{name}.py") for name in files] == [0, 1, 2, 3, 4]


class Process:
    """A process that is given tests, by their places."""

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(id=f"gw{id(self)}")
        self.given: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, places: list[int]) -> None:
        self.given += places

    def shutdown(self) -> None:
        self.shutting_down = True


def test_the_third_process_starts_no_broker() -> None:
    files = ("kafka/test_wire", "kafka/test_inspect", "kafka/test_loops", "unit/test_seeds")
    tests = [f"tests/{file}.py::test_{number}" for file in files for number in range(3)]
    processes = [Process() for _ in range(3)]
    option = SimpleNamespace(loadscopereorder=False)
    scheduling = ByGroup(SimpleNamespace(getvalue=lambda _: ["3*popen"], option=option))
    for process in processes:
        scheduling.add_node(process)
        scheduling.registered_collections[process] = tests
    scheduling.schedule()
    assert [process.given for process in processes] == [[0, 1, 2], [3, 4, 5], [9, 10, 11]]
    for place in (9, 10):
        scheduling.mark_test_complete(processes[2], place)
    assert [process.shutting_down for process in processes] == [False, False, True]
    for place in (0, 1):
        scheduling.mark_test_complete(processes[0], place)
    assert processes[0].given == [0, 1, 2, 6, 7, 8]
