"""Java clients leave nothing in the machine's temporary folder."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from highwater.clusters.local import client_jvm
from highwater.clusters.local.client_jvm import ClientJvm
from highwater.harness.releases.catalogue import release


class Child:
    """A JVM that greets, and was told where it may write."""

    state, pids = "running", ()
    command: Sequence[str] = ()

    def __init__(self, _: str, command: Sequence[str], *, log: Path, **__: object) -> None:
        type(self).command = command
        log.write_text("4000\ntoken\n", "utf-8")

    def kill(self) -> None: ...

    def release(self) -> None: ...


def test_native_libraries_go_to_a_folder_that_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(client_jvm, "ChildProcess", Child)
    monkeypatch.setattr(client_jvm, "clients_classpath", lambda _: [])
    jvm = ClientJvm(release("4.4.0"), tmp_path / "clients.log")
    [folder] = [word for word in Child.command if word.startswith("-Djava.io.tmpdir=")]
    assert Path(folder.partition("=")[2]) == jvm._folder
    jvm.close()
