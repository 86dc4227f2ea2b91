"""Images of Kafka releases. An image is built once, from the local driver's jars and Java.

An image has three layers above the base image (``clusters.containers.base_image``): Java with an
archive of Java's classes, which all releases share; a release's jars; an archive of the jars'
classes, which a broker writes when it starts in a container. A tag is a digest of the image's
inputs. So an image is reused until the jars or Java change.
"""

import contextlib
import io
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from highwater.clusters.containers import ownership
from highwater.clusters.containers.base_image import base_image, find, owned_by_root, source
from highwater.clusters.containers.daemon import Client, connected, errors, user
from highwater.clusters.containers.ownership import LABEL, Claim
from highwater.clusters.nodes import jvm
from highwater.clusters.nodes.jvm import Runtime
from highwater.clusters.nodes.node import failure_lines
from highwater.clusters.releases.jars import classpath, lock_file
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.jvm_class_archive import COLLECTOR, NOT_SHARED, Archive, exclusive
from highwater.harness.base.user_dirs import cache_directory
from highwater.harness.releases.catalogue import Release

REPOSITORY: Final = "highwater/kafka"
RELEASE_LABEL: Final = "highwater.kafka"
_JAVA_REPOSITORY: Final = "highwater/java"
_SHARED_LABEL: Final = "highwater.shared"
RECIPE = "1"
"""A version that must change when the Dockerfiles in this module change."""
_JAVA: Final = "/opt/java"
_JARS: Final = "/opt/kafka"
# The JVM replaces the shell. Both outputs of the JVM are appended to the node's log.
INTO_LOG: Final = ("/bin/sh", "-c", 'exec "$@" >>"$0" 2>&1')
_ARCHIVE: Final = Archive(base=Path(f"{_JAVA}.jsa"), top=Path(f"{_JARS}.jsa"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image of a Kafka release, and the Java runtime in the image."""

    name: str
    runtime: Runtime


TrainingRun = Callable[[Image, Release, Path], None]
"""A function that starts one broker from an image, with its files below a directory, and stops it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerState:
    """The state of a Docker daemon that responds.

    Attributes:
        base: the base image and its source, as text (``base_image.source``).
        releases: releases that have an image, with today's jars or with older jars.
        left: number of Highwater's containers, including those of running clusters.
    """

    version: str
    base: str
    releases: tuple[str, ...]
    left: int

    def __str__(self) -> str:
        return f"{self.version} responds; {self.left} containers of Highwater exist"


def docker_state() -> DockerState:
    """Return the daemon's state. Do not pull or build an image."""
    with connected() as client, errors("does not respond"):
        built = client.images.list(filters={"label": RELEASE_LABEL})
        return DockerState(
            version=str(client.version()["Version"]),
            base=source(client),
            releases=tuple(sorted({image.labels[RELEASE_LABEL] for image in built})),
            left=len(client.api.containers(all=True, filters={"label": LABEL})),
        )


def release_image(client: Client, release: Release, rehearse: TrainingRun) -> Image:
    """Return the release's image. If it is missing, build it: ``rehearse`` starts a broker."""
    base = base_image(client)
    java = _digest(RECIPE, find(client, base).id, jvm.release_file())
    tag = f"{REPOSITORY}:{release.name}-{_digest(java, lock_file(release).read_bytes())}"
    if not find(client, tag):
        lock = cache_directory() / f"image-{release.name}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(lock), _disk_errors():
            if not find(client, tag):
                below = f"{_JAVA_REPOSITORY}:{java}"
                _ensure_java(client, base, below)
                _build_release(client, release, below, tag, rehearse)
    shared = find(client, tag).labels.get(_SHARED_LABEL) == "yes"
    return Image(name=tag, runtime=_runtime(release, _ARCHIVE.using if shared else NOT_SHARED))


def _ensure_java(client: Client, base: str, tag: str) -> None:
    if sys.platform != "linux":
        raise HarnessError(
            "an image contains this machine's Java, so Highwater builds images only on Linux",
            hint="Run on local processes: --cluster local.",
        )
    with exclusive(cache_directory() / "image-java.lock"):
        if find(client, tag):
            return
        bare = f"{tag}-bare"
        _build(client, bare, base, {_JAVA: jvm.java().resolve().parent.parent})
        with tempfile.TemporaryDirectory(prefix="highwater-java-") as name:
            archive = Path(name) / "java.jsa"
            dump = ["-Xshare:dump", COLLECTOR, f"-XX:SharedArchiveFile={archive}"]
            _run(client, bare, [f"{_JAVA}/bin/java", *dump], archive.parent)
            _build(client, tag, bare, {str(_ARCHIVE.base): archive})
        _untag(client, bare)


def _build_release(
    client: Client, release: Release, below: str, tag: str, rehearse: TrainingRun
) -> None:
    """Add the jars, start a broker once, and add the class archive that its JVM wrote."""
    bare = f"{tag}-bare"
    _build(client, bare, below, {f"{_JARS}/{path.name}": path for path in classpath(release)})
    with tempfile.TemporaryDirectory(prefix="highwater-") as name:
        archive = Path(name) / "coordination" / "kafka.jsa"
        runtime = _runtime(release, _ARCHIVE.recording(archive))
        rehearse(Image(name=bare, runtime=runtime), release, Path(name))
        shared = archive.exists()
        labels = {RELEASE_LABEL: release.name, _SHARED_LABEL: "yes" if shared else "no"}
        _build(client, tag, bare, {str(_ARCHIVE.top): archive} if shared else {}, labels)
    _untag(client, bare)


def _run(client: Client, image: str, command: Sequence[str], folder: Path) -> None:
    """Run a command in a new container, which can write to ``folder`` of this machine."""
    from docker.errors import ContainerError  # noqa: PLC0415 - see clusters.containers.daemon
    from docker.types import Mount  # noqa: PLC0415 - for the same reason

    claim = Claim()
    log = folder / "log"
    try:
        with errors(f"cannot run {image}"), contextlib.suppress(ContainerError):
            client.containers.run(
                image,
                [str(log), *command],
                entrypoint=list(INTO_LOG),
                labels=claim.labels,
                user=user(client),
                mounts=[Mount(str(folder), str(folder), type="bind")],
                network_mode="none",
                security_opt=["label=disable"],
            )
            return
    finally:
        ownership.remove(client, claim.name)
        ownership.forget(claim.name)
        claim.close()
    raise HarnessError(f"{command[0]} failed in {image}: {failure_lines(log)}")


def _runtime(release: Release, sharing: Sequence[str]) -> Runtime:
    jars = tuple(f"{_JARS}/{path.name}" for path in classpath(release))
    return Runtime(java=f"{_JAVA}/bin/java", jars=jars, sharing=tuple(sharing))


def _build(
    client: Client,
    tag: str,
    base: str,
    copies: Mapping[str, Path],
    labels: Mapping[str, str] | None = None,
) -> None:
    """Build one layer with copied files. A failed build has no tag, because Docker sets it last."""
    with errors(f"cannot build the image {tag}"), tempfile.TemporaryFile() as context:
        with tarfile.open(fileobj=context, mode="w") as tar:
            for target, source_path in copies.items():
                tar.add(source_path, arcname=f"root{target}", filter=owned_by_root)
            text = f"FROM {base}\n{'COPY root/ /' * bool(copies)}".encode()
            entry = tarfile.TarInfo("Dockerfile")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
        context.seek(0)
        client.images.build(
            fileobj=context,
            custom_context=True,
            tag=tag,
            labels={LABEL: "1", **(labels or {})},
            rm=True,
            forcerm=True,
        )


def _untag(client: Client, name: str) -> None:
    """Remove an image's tag. Its layers remain, because later images are built on them."""
    with errors(f"cannot untag {name}"):
        client.images.remove(name, noprune=True)


def _digest(*parts: str | bytes) -> str:
    joined = b"\0".join(part.encode() if isinstance(part, str) else part for part in parts)
    return sha256(joined).hexdigest()[:12]


@contextlib.contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        place = error.filename or tempfile.gettempdir()
        raise HarnessError(
            f"an image cannot be built: {error.strerror} ({place})",
            hint="A build needs 300 MiB in the temporary folder; set TMPDIR to use another folder.",
        ) from error
