"""Examples: alike in every run, and by HIGHWATER_SEED others, which it brings back."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.seeds import FIRST, seeds

DRAWN: Final = os.environ.get("HIGHWATER_DRAWN")
"""A file for what is drawn, where this module runs itself."""


@settings(max_examples=5)
@given(st.integers())
def test_an_example_is_an_integer(value: int) -> None:
    if DRAWN:
        with Path(DRAWN).open("a") as file:
            file.write(f"{value}\n")
    assert isinstance(value, int)


def drawn(file: Path, seed: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", f"{__file__}::{test_an_example_is_an_integer.__name__}"],
        env={**os.environ, "HIGHWATER_SEED": seed, "HIGHWATER_DRAWN": str(file)},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.nightly
def test_a_seed_draws_other_examples_and_the_same_again(tmp_path: Path) -> None:
    runs = {"none": "", "again": "", "seven": "7", "seven-again": "7", "eight": "8"}
    started = [drawn(tmp_path / name, seed) for name, seed in runs.items()]
    heads = [process.communicate(timeout=120)[0] for process in started]
    assert [process.returncode for process in started] == [0] * len(runs)
    none, again, seven, seven_again, eight = [(tmp_path / name).read_text() for name in runs]
    assert none == again
    assert seven == seven_again
    assert len({none, seven, eight}) == 3
    assert ["HIGHWATER_SEED=7 draws these examples again" in head for head in heads] == [
        False, False, True, True, False,
    ]  # fmt: skip


def test_seeds_begin_with_the_first() -> None:
    assert [seed.values for seed in seeds(2)] == [(FIRST,), (FIRST + 1,)]
