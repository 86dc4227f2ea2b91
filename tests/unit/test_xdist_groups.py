"""The groups in which two processes share the tests are those that the tests need."""

import subprocess
import sys

import pytest

from tests.support.xdist_groups import DOCKER, ROOT, group, rank


@pytest.mark.slow
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
    assert group("tests/kafka/test_stories.py") == "tests/kafka/test_stories.py"
    assert (
        group("tests/unit/nemesis/faults/test_registry.py")
        == "tests/unit/nemesis/faults/test_registry.py"
    )


def test_the_longest_come_first() -> None:
    files = ("unit/checkers/test_golden_runs", "kafka/test_inspect")
    ranked = [rank(f"tests/{name}.py") for name in files]
    assert [*ranked, rank("tests/unit/nemesis/faults/test_registry.py")] == [0, 1, 2]
