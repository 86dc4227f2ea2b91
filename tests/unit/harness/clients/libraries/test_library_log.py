"""A library's logger is given back as it was, when the last run that reads it ends."""

import logging
from collections.abc import Iterator

import pytest

from highwater.harness.clients.libraries.library_log import LibraryLog

NAME = "highwater-test-library"


@pytest.fixture
def library() -> Iterator[logging.Logger]:
    logger = logging.getLogger(NAME)
    logger.setLevel(logging.ERROR)
    assert logger.propagate
    yield logger
    logger.setLevel(logging.NOTSET)


def test_a_logger_is_given_back_as_it_was(library: logging.Logger) -> None:
    run = logging.getLogger("highwater-test-run")
    run.addHandler(logging.NullHandler())
    first, second = LibraryLog(NAME, run), LibraryLog(NAME, run)
    assert (library.level, library.propagate) == (logging.INFO, False)
    first.close()
    first.close()  # counts once
    assert (library.level, library.propagate) == (logging.INFO, False)
    second.close()
    assert (library.level, library.propagate, library.handlers) == (logging.ERROR, True, [])
    LibraryLog(NAME, run).close()
    assert (library.level, library.propagate) == (logging.ERROR, True)
