"""What is kept is made once, whoever asks."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from checkers.frames import Kept

LIMIT_S = 30.0


def test_of_several_threads_one_makes_it_and_others_wait(tmp_path: Path) -> None:
    kept, begun, go_on = Kept(mock.Mock(), tmp_path), threading.Event(), threading.Event()
    made: list[str] = []

    def make() -> Any:  # noqa: ANN401 - it stands for a frame
        begun.set()
        assert go_on.wait(LIMIT_S)
        made.append("once")
        return len(made)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(kept.once, "name", make)
        assert begun.wait(LIMIT_S)
        second = pool.submit(kept.once, "name", make)
        other: Any = kept.once("another", lambda: mock.sentinel.other)
        assert other is mock.sentinel.other  # nobody waits for what bears another name
        go_on.set()
        found = [each.result(LIMIT_S) for each in (first, second)]
    assert [*map(str, found)] == ["1", "1"]


def test_what_failed_is_made_again(tmp_path: Path) -> None:
    kept = Kept(mock.Mock(), tmp_path)
    make = mock.Mock(side_effect=[OSError("no space left"), mock.sentinel.frame])
    with pytest.raises(OSError, match="no space left"):
        kept.once("name", make)
    frame: Any = kept.once("name", make)
    assert frame is mock.sentinel.frame


def test_a_folder_is_empty_though_something_was_left_in_it(tmp_path: Path) -> None:
    kept = Kept(mock.Mock(), tmp_path)
    (kept.empty("name") / "half").write_text("written")
    assert not list(kept.empty("name").iterdir())
