"""The choice of a client, and the brokers that it can speak to."""

from pathlib import Path

import pytest

from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.client_choice import (
    AIOKAFKA,
    DRIVER,
    KAFKA_PYTHON,
    read_client,
)


def test_java_is_of_the_brokers_release_unless_another_is_named() -> None:
    assert read_client("librdkafka", "4.4.0").release is None
    assert read_client("java", "3.9.2").release == release("3.9.2")
    assert read_client("java:3.9.2", "4.4.0").release == release("3.9.2")


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("ruby", "no client is called 'ruby'"),
        ("jaava", "no client is called 'jaava'"),
        ("", "no client is called ''"),
        ("java:9.9", "9.9"),
        ("java:", "''"),
        ("librdkafka:", "librdkafka has no release ''"),
        ("librdkafka:2.1; rm", "librdkafka has no release"),
        ("kafka-python:2", "kafka-python has no release '2'"),
        ("aiokafk", "no client is called 'aiokafk'"),
        ("./driver 'a", "cannot be read: No closing quotation"),
    ],
)
def test_an_unknown_client_is_refused_by_name(word: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_client(word, "4.4.0")


def test_another_librdkafka_is_a_driver_that_imports_its_wheel() -> None:
    choice = read_client("librdkafka:2.10.0", "4.4.0")
    assert choice.library == DRIVER
    assert choice.wheel == "confluent-kafka==2.10.0"
    assert choice.title == "the clients of confluent-kafka==2.10.0"
    assert Path(choice.command[-1]).is_file()


@pytest.mark.parametrize("library", [KAFKA_PYTHON, AIOKAFKA])
def test_a_python_client_is_a_driver_of_ours_that_may_import_another_wheel(library: str) -> None:
    installed, other = read_client(library, "4.4.0"), read_client(f"{library}:2.1.1", "4.4.0")
    assert (installed.library, other.library) == (library, library)
    assert (installed.wheel, other.wheel) == ("", f"{library}==2.1.1")
    assert (installed.title, other.title) == (
        f"{library}'s clients",
        f"the clients of {other.wheel}",
    )
    assert installed.command == other.command
    assert Path(installed.command[-1]).is_file()
    assert installed.why_not_sharing(release("4.4.0"))


def test_a_word_with_a_slash_is_the_command_of_a_driver() -> None:
    choice = read_client("env/bin/python 'my driver.py' -v", "0.9.0.1")
    assert choice.command == ("env/bin/python", "my driver.py", "-v")
    assert choice.title == "the clients of env/bin/python 'my driver.py' -v"
    assert not choice.why_not(release("0.9.0.1"))


@pytest.mark.parametrize(
    ("client", "brokers", "speaks"),
    [
        ("4.4.0", "2.0.1", False),
        ("4.4.0", "2.1.1", True),
        ("2.0.1", "4.4.0", False),
        ("2.1.1", "4.4.0", True),
        ("3.9.2", "0.10.0.1", True),
        ("3.9.2", "0.9.0.1", False),
        ("0.9.0.1", "0.9.0.1", True),
        ("0.9.0.1", "3.9.2", True),
        ("0.10.0.1", "0.9.0.1", False),
        ("0.10.2.2", "0.10.0.1", True),
    ],
)
def test_clients_speak_to_the_brokers_that_kafka_says(
    client: str, brokers: str, speaks: bool
) -> None:
    choice = read_client(f"java:{client}", brokers)
    assert bool(choice.why_not(release(brokers))) != speaks


@pytest.mark.parametrize(
    ("client", "brokers", "speaks"),
    [
        ("librdkafka", "0.9.0.1", True),
        ("kafka-python", "0.9.0.1", False),
        ("kafka-python", "0.10.0.1", True),
        ("kafka-python", "4.4.0", True),
        ("aiokafka", "0.10.2.2", False),
        ("aiokafka", "0.11.0.2", True),
        ("aiokafka", "4.4.0", True),
    ],
)
def test_python_clients_speak_to_the_brokers_that_they_were_tried_with(
    client: str, brokers: str, speaks: bool
) -> None:
    choice = read_client(client, brokers)
    assert bool(choice.why_not(release(brokers))) != speaks
    assert choice.idempotence


def test_a_library_may_lack_a_compression() -> None:
    assert not read_client("kafka-python", "4.4.0").compresses("lz4")
    assert read_client("aiokafka", "4.4.0").compresses("lz4")
    assert not read_client("java:2.0.1", "4.4.0").compresses("zstd")
