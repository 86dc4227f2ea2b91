"""A real S3 server on loopback: versitygw, which ``make test-nightly`` builds, over a folder."""

import secrets
import shutil
import socket
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from pyarrow import fs

from highwater.clusters.releases.jars import fetch, read_lock
from highwater.harness.base.waiting import await_condition
from tests.spark.beds import LOOPBACK, daemon

_BUCKET: Final = "highwater"
_USER: Final = "tests"
_LIMIT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Store:
    """A bucket, and what Spark is told to reach it.

    Attributes:
        uri: of the bucket, for Spark: ``s3a://…``.
        conf: Spark's settings: jars, endpoint and keys.
        files: the same bucket without Spark.
    """

    uri: str
    conf: dict[str, str]
    files: fs.SubTreeFileSystem

    def put(self, folder: Path, name: str) -> str:
        """Copy a folder into the bucket; its URI."""
        fs.copy_files(
            str(folder),
            name,
            source_filesystem=fs.LocalFileSystem(),
            destination_filesystem=self.files,
        )
        return f"{self.uri}/{name}"

    def names(self, prefix: str = "") -> list[str]:
        """Return the names of all files below a prefix."""
        found = self.files.get_file_info(fs.FileSelector(prefix, recursive=True))
        return sorted(one.path for one in found if one.type == fs.FileType.File)


@contextmanager
def s3(folder: Path) -> Iterator[S3Store]:
    """Run a server with an empty bucket.

    Args:
        folder: of its log and its objects.
    """
    beside = Path(sys.executable).parent / "versitygw"
    program = str(beside) if beside.exists() else shutil.which("versitygw")
    if program is None:
        pytest.skip("needs the S3 server versitygw, which `make test-nightly` builds")
    root, sidecar = folder / "objects", folder / "metadata"
    (root / _BUCKET).mkdir(parents=True)
    sidecar.mkdir()
    port, secret = _free_port(), secrets.token_hex(16)
    server = [program, "--port", f"{LOOPBACK}:{port}", "--access", _USER, "--secret", secret]
    backend = ["posix", "--sidecar", str(sidecar), str(root)]
    with daemon(folder / "s3.log", [*server, "--health", "/health", "--quiet", *backend]):
        endpoint = f"http://{LOOPBACK}:{port}"
        await_condition(
            lambda: urllib.request.urlopen(f"{endpoint}/health", timeout=1).status,  # noqa: S310 - ours
            lambda status: status == 200,
            what=f"the S3 server of {folder}",
            limit_s=_LIMIT_S,
            passing=(OSError,),
        )
        yield _store(endpoint, secret)


def _store(endpoint: str, secret: str) -> S3Store:
    jars = fetch("spark-s3", read_lock(Path(__file__).with_name("s3.toml")))
    direct = fs.S3FileSystem(
        access_key=_USER, secret_key=secret, endpoint_override=endpoint, region="us-east-1"
    )
    conf = {
        "endpoint": endpoint,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "access.key": _USER,
        "secret.key": secret,
    }
    return S3Store(
        uri=f"s3a://{_BUCKET}",
        conf={f"spark.hadoop.fs.s3a.{key}": value for key, value in conf.items()}
        | {"spark.jars": ",".join(map(str, jars))},
        files=fs.SubTreeFileSystem(_BUCKET, direct),
    )


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((LOOPBACK, 0))
        return int(one.getsockname()[1])
