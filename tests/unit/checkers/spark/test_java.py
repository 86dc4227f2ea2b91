from pathlib import Path

import pytest

from highwater.checkers.spark import java
from highwater.checkers.spark.java import find_java
from highwater.harness.base.errors import HarnessError

MODULES = 'MODULES="java.base jdk.incubator.vector"'


def home(folder: Path, release: str | None, *, modules: str = "") -> Path:
    """A made-up Java home; without a release file its ``java`` lists ``modules``."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho '{modules}'\n")
    command.chmod(0o755)
    if release is not None:
        (folder / "release").write_text(release)
    return folder


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'empty'}")
    monkeypatch.setattr(java, "_USUAL_PLACES", ())


def test_no_java_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(HarnessError, match="no Java was found") as caught:
        find_java()
    assert "JAVA_HOME" in caught.value.hint


@pytest.mark.parametrize(
    ("release", "why"),
    [
        ('JAVA_VERSION="1.8.0_392"', "Java 8.0_392, which is too old"),
        (f'JAVA_VERSION="11.0.2"\n{MODULES}', "Java 11.0.2, which is too old"),
        ('JAVA_VERSION="17.0.9"\nMODULES="java.base"', "lacks the module jdk.incubator.vector"),
        ("nothing known", "of no known version"),
    ],
)
def test_what_will_not_do_is_named(
    release: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "java", release)))
    with pytest.raises(HarnessError, match="Java 17 or later") as caught:
        find_java()
    assert why in caught.value.message


def test_a_java_on_path_serves_where_java_home_will_not_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = home(tmp_path / "good", f'JAVA_VERSION="21.0.1"\n{MODULES}')
    old = home(tmp_path / "old", 'JAVA_VERSION="1.8.0_392"')
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(good / "bin"))
    assert find_java() == good


def test_a_java_without_release_file_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = home(tmp_path / "java", None, modules="java.base@17.0.9\njdk.incubator.vector@17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(asked))
    assert find_java() == asked


def test_usual_places_come_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = home(tmp_path / "jvm" / "java-17", f'JAVA_VERSION="17.0.1"\n{MODULES}')
    monkeypatch.setattr(java, "_USUAL_PLACES", ((tmp_path / "jvm", "*"),))
    assert find_java() == good
