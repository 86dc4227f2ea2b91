"""The shell lines of the Action, of the release and for GitLab."""

from pathlib import Path

import pytest

from highwater import __version__
from tests.browser.samples import SAMPLES
from tests.support.ci_files import action, bash, document, step


@pytest.mark.slow
def test_the_action_shows_what_was_lost_as_a_summary_and_annotations(tmp_path: Path) -> None:
    for number, name in enumerate(("loss", "valid")):
        written = SAMPLES[name]().write(tmp_path / "store")
        written.path.rename(tmp_path / "store" / f"2026112{number}T010203-{name}")
    done = bash(action("Show what was lost"), tmp_path)
    (line,) = done.stdout.splitlines()
    assert line.startswith("::error title=Kafka 0.10.2.2%3A "), done.stderr
    assert "%0Arepeat: highwater run " in line
    summary = (tmp_path / "summary.md").read_text("utf-8")
    assert "✕ **invalid**" in summary
    assert "✓ valid" in summary


@pytest.mark.slow
def test_the_action_shows_nothing_where_nothing_was_judged(tmp_path: Path) -> None:
    done = bash(action("Show what was lost"), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inputs", "mistake"),
    [
        ({"KAFKA": "9.9", "STORY": "loss"}, "9.9"),
        (
            {"KAFKA": "4.4.0", "NEMESIS": "kill", "OPTIONS": "--acks 1 --for 0s"},
            "0 s are too short",
        ),
        ({"APP": "./a 'b c'", "KAFKA": "9.9"}, "9.9"),
    ],
)
def test_inputs_of_the_action_become_words(
    inputs: dict[str, str], mistake: str, tmp_path: Path
) -> None:
    done = bash(action("Run it"), tmp_path, **inputs)
    assert done.returncode == 2
    assert mistake in done.stderr


@pytest.mark.slow
def test_words_for_gitlab_reach_the_command(tmp_path: Path) -> None:
    job = document("docs/examples/ci/gitlab.yml")["highwater"]
    done = bash("\n".join(job["script"]), tmp_path, HIGHWATER_WORDS="run --kafka 9.9 --story loss")
    assert done.returncode == 2
    assert "9.9" in done.stderr


def test_a_release_needs_its_version_and_a_line_in_the_changelog(tmp_path: Path) -> None:
    steps = document(".github/workflows/release.yml")["jobs"]["build"]["steps"]
    lines = step(steps, "The tag is the version, and the changelog has it")
    codes = [
        bash(lines, tmp_path, GITHUB_REF_NAME=tag).returncode for tag in (f"v{__version__}", "v9")
    ]
    assert codes == [0, 1]
