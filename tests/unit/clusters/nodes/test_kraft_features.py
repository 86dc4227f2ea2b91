"""Which features a KRaft cluster begins with: what Kafka's own tool wrote, read back."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from highwater.clusters.core.addresses import Address
from highwater.clusters.nodes import config_files, kraft_features
from highwater.clusters.releases.software_level import Level
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.releases.catalogue import metadata_release, release

CHECKPOINT = Path(__file__).parents[2] / "data" / "bootstrap-4.3.1.checkpoint"
"""Written by ``StorageTool format`` of 4.3.1; nothing in it is one cluster's own."""

NOWHERE = Address(host="127.0.0.1", port=1)


def test_the_features_of_a_release_are_read_from_what_its_tool_wrote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kraft_features, "checkpoint", lambda _: CHECKPOINT.read_bytes())
    assert kraft_features.features(release("4.3.1")) == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }


@pytest.fixture
def tool_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Let StorageTool write the checkpoint under each of these names, and nothing be cached."""
    names: list[str] = []

    def run(command: Sequence[str], **_: object) -> None:
        properties = Path(command[-1])
        for name in names:
            file = properties.parent / "log" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(CHECKPOINT.read_bytes())

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kraft_features, "classpath", lambda _: [])
    monkeypatch.setattr(subprocess, "run", run)
    return names


@pytest.mark.parametrize(
    "name",
    ["bootstrap.checkpoint", "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"],
)
def test_the_features_are_found_where_the_tool_of_a_release_writes_them(
    name: str, tool_files: list[str]
) -> None:
    tool_files.append(name)
    assert kraft_features.features(release("4.4.0"))["metadata.version"] == 30  # the file's
    tool_files.clear()
    assert kraft_features.checkpoint(release("4.4.0")) == CHECKPOINT.read_bytes()  # cached


@pytest.mark.parametrize("damage", ["empty", "short", "flipped"])
def test_a_cached_checkpoint_that_is_damaged_is_made_again(
    damage: str, tool_files: list[str], tmp_path: Path
) -> None:
    tool_files.append("bootstrap.checkpoint")
    content = kraft_features.checkpoint(release("4.4.0"))
    [cached] = tmp_path.rglob("features-*.checkpoint")
    assert cached.read_bytes() == content
    broken = {
        "empty": b"",
        "short": content[:-3],
        "flipped": content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    }
    cached.write_bytes(broken[damage])
    assert kraft_features.checkpoint(release("4.4.0")) == content
    assert cached.read_bytes() == content


@pytest.mark.parametrize(
    ("written", "says"), [([], "none"), (["a.checkpoint", "b.checkpoint"], "a.checkpoint, b")]
)
def test_a_tool_that_writes_not_one_checkpoint_is_an_error(
    written: list[str], says: str, tool_files: list[str]
) -> None:
    tool_files += written
    with pytest.raises(HarnessError, match=rf"Kafka 4\.4\.0's tool wrote no features.*{says}"):
        kraft_features.checkpoint(release("4.4.0"))


def test_the_first_voters_are_what_the_tool_wrote(
    tool_files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["__cluster_metadata-0/0.checkpoint", "bootstrap.checkpoint"]
    tool_files += names
    run, commands, settings = subprocess.run, list[Sequence[str]](), list[str]()

    def watched(command: Sequence[str], **options: object) -> None:
        commands.append(command)
        settings.append(Path(command[-1]).read_text("utf-8"))
        run(command, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "run", watched)
    voters = {100: "a:1:first", 101: "b:2:second"}
    written = kraft_features.initial_quorum(release("3.9.2"), voters)
    assert written == dict.fromkeys(names, CHECKPOINT.read_bytes())
    [command] = commands
    option = command.index("--initial-controllers")
    assert command[option + 1] == "100@a:1:first,101@b:2:second"
    assert "controller.quorum.bootstrap.servers=127.0.0.1:1\n" in settings[0]
    assert "controller.quorum.voters" not in settings[0]


def test_a_metadata_version_is_that_of_the_newest_release_that_has_it() -> None:
    assert metadata_release("4.0").name == "4.0.2"
    with pytest.raises(UsageError, match=r"has the metadata\.version '3\.8'"):
        metadata_release("3.8")


@pytest.mark.parametrize(
    ("kafka", "protocol", "whose"),
    [("3.9.0", "", "3.9.0"), ("4.0.1", "4.0", "4.0.1"), ("4.3.1", "3.9", "3.9.2")],
)
def test_a_release_has_its_own_features_unless_it_is_held_back(
    kafka: str, protocol: str, whose: str
) -> None:
    assert kraft_features.source(Level.of(release(kafka), protocol=protocol)).name == whose


def test_no_node_is_told_the_metadata_version(tmp_path: Path) -> None:
    told = config_files.controller(
        release("4.3.1"),
        100,
        NOWHERE,
        voters={100: NOWHERE},
        log_directory=tmp_path,
        overrides={"metadata.version": "3.9", "broker.session.timeout.ms": "3000"},
    )
    assert "metadata.version" not in told
    assert told["broker.session.timeout.ms"] == "3000"
