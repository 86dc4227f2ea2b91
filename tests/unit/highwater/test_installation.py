"""The base answers without the extras, and names the line that installs them."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

import pytest

from highwater.harness.base.exit_codes import BROKEN, FAILED, OK
from highwater.installation import DISTRIBUTION, EXTRAS, explained, install_line, rival

ROOT: Final = Path(__file__).parents[3]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
QUICKSTART: Final = str(ROOT / "docs" / "examples" / "clusters" / "quickstart.yml")
BASE: Final = {
    ("hazards",): OK,
    ("hazards", "show", "elected-again"): OK,
    ("versions",): OK,
    ("model", "rules"): OK,
    ("run", "--help"): OK,
    ("advise", QUICKSTART): BROKEN,
    ("doctor",): FAILED,
}
"""Commands of the base, and how they end where no extra is installed."""

BLOCKED: Final = """
import sys

class Blocker:
    def find_spec(self, name, *_):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
from highwater.__main__ import main
main()
"""


def without_extras(*words: str) -> "subprocess.CompletedProcess[str]":
    heavy = {module.split(".")[0] for modules in EXTRAS.values() for module in modules}
    program = BLOCKED.format(blocked=heavy)
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("words", BASE, ids=" ".join)
def test_the_base_answers_alone(words: tuple[str, ...]) -> None:
    done = without_extras(*words)
    assert (done.returncode, done.stderr) == (BASE[words], "")


@pytest.mark.slow
def test_the_doctor_names_what_is_missing_and_its_line() -> None:
    (found,) = (
        diagnosis
        for diagnosis in json.loads(without_extras("doctor", "--json").stdout)
        if diagnosis["name"] == "libraries to run and judge"
    )
    assert not found["ok"]
    assert found["found"] == f"not installed: {', '.join(EXTRAS['run'])}"
    assert found["hint"] == "pip install 'highwater-kafka[run]'"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["demo", "run --story loss", "inspect .", "check a", "serve"])
def test_a_command_without_its_extra_prints_the_line_that_installs_it(command: str) -> None:
    done = without_extras(*command.split())
    line = r"highwater: \w+ is needed, but not installed: pip install 'highwater-kafka\[run\]'\n"
    assert re.fullmatch(line, done.stderr), done.stderr
    assert (done.returncode, done.stdout) == (2, "")


def test_the_line_fits_where_packages_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = []
    for prefix in ("/home/a/.venv", "/home/a/.local/pipx/venvs/highwater-kafka", "/a/.cache/uv/x"):
        monkeypatch.setattr(sys, "prefix", prefix)
        lines.append(install_line("docker"))
    assert [line.split(" '")[0] for line in lines] == [
        "pip install",
        "pipx install --force",
        "uv tool install",
    ]


def test_a_module_of_no_extra_is_a_bug() -> None:
    assert explained(ModuleNotFoundError("", name="pyarrowhead")) is None
    assert explained(ModuleNotFoundError("", name="docker.errors"))


@pytest.mark.parametrize("extra", ["run", "docker"])
def test_modules_are_those_of_the_extra(extra: str) -> None:
    of = packages_distributions()
    wanted = {re.split(r"[\[>=<]", word)[0] for word in PROJECT["optional-dependencies"][extra]}
    named = {name.lower() for module in EXTRAS[extra] for name in of[module]}
    assert named - {"py4j"} == {name.lower() for name in wanted} - {DISTRIBUTION}


def distribution_named_highwater(place: Path, *files: str) -> Path:
    info = place / "highwater-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: highwater\nVersion: 9.9\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    return place


@pytest.mark.slow
def test_another_package_in_its_place_is_named(tmp_path: Path) -> None:
    package = distribution_named_highwater(tmp_path, "highwater/__init__.py") / "highwater"
    package.mkdir()
    for part in (ROOT / "highwater").iterdir():
        if part.name != "__init__.py":
            (package / part.name).symlink_to(part.resolve())
    (package / "__init__.py").write_text("")
    command = [sys.executable, "-m", "highwater", "versions"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("highwater: the distribution highwater 9.9 has a package")
    assert done.stderr.count("\n") == 1


def test_an_editable_install_under_the_former_name_is_no_rival(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(distribution_named_highwater(tmp_path, "highwater.pth")))
    assert not rival()


@pytest.mark.nightly
def test_the_wheel_gives_advice_in_an_empty_environment(tmp_path: Path) -> None:
    def run(*command: str | Path) -> int:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        env["HOME"] = str(tmp_path)
        return subprocess.run(command, env=env, cwd=tmp_path, check=False, timeout=240).returncode

    assert run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", tmp_path, ROOT) == OK
    (wheel,) = tmp_path.glob("highwater_kafka-*.whl")
    assert run(sys.executable, "-m", "venv", "empty") == OK
    commands = tmp_path / "empty" / "bin"
    assert run(commands / "pip", "install", "-c", ROOT / "constraints.txt", wheel) == OK
    assert run(commands / "highwater", "hazards") == OK
    assert run(commands / "highwater-kafka", "advise", QUICKSTART) == BROKEN
    assert run(commands / "highwater", "run", "--story", "loss") == 2
