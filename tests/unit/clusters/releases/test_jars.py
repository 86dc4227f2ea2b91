"""The jar cache, with two small made-up jars and a made-up registry."""

import errno
import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests
from jgo.maven import PythonResolver

from highwater.clusters.releases import jars as distribution
from highwater.clusters.releases.jars import classpath, digests, remote_storage_jars
from highwater.harness.base import user_dirs
from highwater.harness.base.errors import HarnessError
from highwater.harness.releases.catalogue import Release, release

CONTENT = {"a-1.jar": b"first", "b-2.jar": b"second"}


class Registry:
    """Stands in for the Maven registry: delivers CONTENT and counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.delivers = dict(CONTENT)
        self._counting = threading.Lock()

    def download(self, artifact: object) -> Path:
        path = artifact.cached_path  # type: ignore[attr-defined]  # jgo is not typed
        assert isinstance(path, Path)
        with self._counting:
            self.asked.append(path.name)
        path.parent.mkdir(parents=True)
        path.write_bytes(self.delivers[path.name])
        return path


@pytest.fixture
def entry() -> Release:
    return release("0.10.2.2")


@pytest.fixture
def registry(entry: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    locks = tmp_path / "locks"
    locks.mkdir()
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}
    (locks / f"{entry.name}.toml").write_text(
        f'[jars]\n"g:a:1" = "{sums["a-1.jar"]}"\n"g:b:2" = "{sums["b-2.jar"]}"\n'
    )
    monkeypatch.setattr(distribution, "_LOCKS", locks)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = Registry()
    monkeypatch.setattr(PythonResolver, "download", made.download)
    return made


def test_jars_are_downloaded_once_in_class_path_order(entry: Release, registry: Registry) -> None:
    jars = classpath(entry)
    assert [jar.name for jar in jars] == ["a-1.jar", "b-2.jar"]
    assert [jar.read_bytes() for jar in jars] == list(CONTENT.values())
    assert classpath(entry) == jars
    assert sorted(registry.asked) == sorted(CONTENT)


def test_the_cache_follows_home(
    entry: Release, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert classpath(entry)[0].parent == tmp_path / "home" / ".cache" / "highwater" / "jars"
    assert registry.asked


def test_a_tampered_jar_is_refused_with_both_sums(entry: Release, registry: Registry) -> None:
    jar = classpath(entry)[1]
    jar.write_bytes(b"tampered")
    with pytest.raises(
        HarnessError, match=r"b-2\.jar differs from the jar in the lock file"
    ) as caught:
        classpath(entry)
    assert hashlib.sha256(b"tampered").hexdigest() in caught.value.message
    assert hashlib.sha256(b"second").hexdigest() in caught.value.message
    assert f"Delete {jar}" in caught.value.hint
    jar.unlink()
    assert classpath(entry)[1].read_bytes() == b"second"
    assert len(registry.asked) == 3


def test_a_wrong_delivery_never_reaches_the_cache(entry: Release, registry: Registry) -> None:
    registry.delivers["a-1.jar"] = b"something else"
    with pytest.raises(HarnessError, match=r"a-1\.jar differs from the jar in the lock file"):
        classpath(entry)
    folder = user_dirs.cache_directory() / "jars"
    assert not (folder / "a-1.jar").exists()
    assert not list(folder.glob(".download-*"))


def test_without_a_network_the_error_says_so(
    entry: Release, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Path:
        raise requests.ConnectionError("no route to host")

    monkeypatch.setattr(PythonResolver, "download", refuse)
    with pytest.raises(HarnessError, match="could not be downloaded: ConnectionError") as caught:
        classpath(entry)
    assert "network" in caught.value.hint
    assert registry.asked == []


def test_a_full_disk_is_named(
    entry: Release, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(*_: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(PythonResolver, "download", fill)
    with pytest.raises(HarnessError, match="cannot be written: No space left") as caught:
        classpath(entry)
    assert "Free" in caught.value.hint
    assert registry.asked == []


def test_threads_share_one_download(entry: Release, registry: Registry) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(classpath, [entry] * 8))
    assert all(jars == found[0] for jars in found)
    assert sorted(registry.asked) == sorted(CONTENT)


def test_a_warm_class_path_reads_no_jar(
    entry: Release, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = classpath(entry)
    read: list[object] = []
    monkeypatch.setattr(hashlib, "file_digest", lambda *file: read.append(file))
    assert classpath(entry) == jars
    assert read == []
    assert len(registry.asked) == 2


@pytest.mark.parametrize(
    ("kafka", "names"),
    [
        ("3.3.2", []),
        ("3.7.2", ["kafka-storage-3.7.2-test.jar"]),
        ("4.3.1", ["kafka-storage-4.3.1-test.jar"]),
        ("4.4.0", ["kafka-storage-4.3.1-test.jar", "kafka-clients-4.3.1.jar"]),
    ],
)
def test_a_remote_tier_needs_jars_behind_those_of_the_release(kafka: str, names: list[str]) -> None:
    jars = remote_storage_jars(release(kafka))
    assert [jar.file_name for jar in jars] == names
    assert set(digests(release(kafka), tiered=True)) == {*digests(release(kafka)), *names}
