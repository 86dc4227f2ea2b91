"""The base of all images: a C library and a shell, from Debian's packages or a registry.

If apt-get exists, no image registry is needed: this module downloads five packages, unpacks them,
and imports them as an image.
"""

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final

from highwater.clusters.containers.daemon import Client, errors
from highwater.clusters.containers.ownership import LABEL
from highwater.harness.base.errors import HarnessError

VARIABLE: Final = "HIGHWATER_BASE_IMAGE"
BUILT: Final = "highwater/base:1"
_PULLED: Final = "debian:bookworm-slim"
_PACKAGES: Final = ("libc6", "libgcc-s1", "zlib1g", "libstdc++6", "busybox-static")
_SHELL: Final = ("sh", "ls", "cat", "ps", "kill", "ip", "nc")  # the last ones are for debugging
_LIMIT_S: Final = 120


def base_image(client: Client) -> str:
    """Return the name of the base image. Pull or build the image if it does not exist yet.

    If the variable ``HIGHWATER_BASE_IMAGE`` is set, it names the image. Otherwise the function uses
    an image that it built earlier. Without such an image, the function builds the image from
    Debian's packages. If apt-get is missing, the function pulls the image from a registry.
    """
    configured = os.environ.get(VARIABLE)
    if configured:
        _pull(client, configured)
        return configured
    if find(client, BUILT):
        return BUILT
    if not _has_packages():
        _pull(client, _PULLED)
        return _PULLED
    _build(client)
    return BUILT


def source(client: Client) -> str:
    """Describe the source of the base image, such as ``debian:bookworm-slim, to be pulled``."""
    configured = os.environ.get(VARIABLE)
    if configured:
        return (
            f"{configured} ({VARIABLE}), {'exists' if find(client, configured) else 'to be pulled'}"
        )
    if find(client, BUILT):
        return f"{BUILT}, built here"
    return "to be built from Debian's packages" if _has_packages() else f"{_PULLED}, to be pulled"


def _has_packages() -> bool:
    return bool(shutil.which("apt-get") and shutil.which("dpkg-deb"))


def find(client: Client, name: str) -> Any:  # noqa: ANN401 - docker ships no types
    """Return the image with this name, or None."""
    from docker.errors import ImageNotFound  # noqa: PLC0415 - see clusters.containers.daemon

    with errors(f"cannot look for the image {name}"):
        try:
            return client.images.get(name)
        except ImageNotFound:
            return None


def _pull(client: Client, name: str) -> None:
    if find(client, name):
        return
    try:
        with errors(f"cannot pull the base image {name}"):
            client.images.pull(name)
    except HarnessError as error:
        raise HarnessError(
            error.message,
            hint=f"Load an image with docker load, and set {VARIABLE} to its name. On Debian, "
            "Highwater builds the image if apt-get can download packages.",
        ) from error


def _build(client: Client) -> None:
    with tempfile.TemporaryDirectory(prefix="highwater-base-") as name:
        folder = Path(name)
        root = folder / "root"
        root.mkdir()
        _unpack(folder, root)
        _merge(root)
        with errors("cannot import the base image"), tempfile.TemporaryFile() as archive:
            with tarfile.open(fileobj=archive, mode="w") as tar:
                tar.add(root, arcname=".", filter=owned_by_root)
            archive.seek(0)
            repository, tag = BUILT.split(":")
            client.api.import_image_from_data(
                archive, repository, tag, changes=[f"LABEL {LABEL}=1", "ENV PATH=/usr/bin"]
            )


def _unpack(folder: Path, root: Path) -> None:
    try:
        _run(["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *_PACKAGES], folder)
        for package in sorted(folder.glob("*.deb")):
            _run(["dpkg-deb", "-x", str(package), str(root)], folder)
    except subprocess.SubprocessError as error:
        stderr = (getattr(error, "stderr", None) or b"").decode("utf-8", "replace").strip()
        raise HarnessError(
            f"the base image cannot be made from Debian's packages: {stderr or error}",
            hint="Run apt-get update, check the network, or set "
            f"{VARIABLE} to the name of an image that Docker has.",
        ) from error


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_LIMIT_S)


def _merge(root: Path) -> None:
    """Move ``/lib*`` and ``/bin`` to ``/usr``; add a shell, ``/tmp`` and ``/etc/passwd``."""
    for top in [path for path in root.iterdir() if path.name.startswith(("lib", "bin"))]:
        merged = root / "usr" / top.name
        shutil.copytree(top, merged, symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(top)
        top.symlink_to(f"usr/{top.name}")
    shutil.rmtree(root / "usr" / "share", ignore_errors=True)
    for command in _SHELL:
        (root / "usr" / "bin" / command).symlink_to("busybox")
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/:/bin/sh\n", encoding="ascii")


def owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Set the owner of an archive's entry to root, because the image has no other users."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry
