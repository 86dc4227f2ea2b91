"""Requests to the API server of Kubernetes, by its official client, in one namespace."""

import contextlib
import io
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, Final, NamedTuple

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import stream
from kubernetes.stream.ws_client import WSClient
from websocket import WebSocketException

from highwater.harness.base.errors import HarnessError, UsageError

_REQUEST_S: Final = 20.0
_STDOUT, _STDERR, _STATUS = 1, 2, 3
_HANDSHAKE: Final = re.compile(r"Handshake status (\d+)")
_END: Final = b".\n"
_WITH_END: Final = "{}\nstatus=$?; echo .; exit $status"
"""A script with ``_END`` after its output. Containerd may lose the end of an output."""

_FORBIDDEN: Final = (401, 403)
_ABSENT: Final = 404
_MESSAGE: Final = re.compile(r'"message": ?"((?:\\.|[^"\\])*)"')

Resource = Mapping[str, Any]
"""An object of the API, with the names of its JSON."""

NEEDED: Final = (
    *(("get", "pods"), ("list", "pods"), ("delete", "pods"), ("patch", "pods")),
    *(("create", "pods/exec"), ("get", "pods/exec")),
)
"""Verbs and resources of the commands, which ``check`` requests before a run."""


class AbsentError(HarnessError):
    """The API server has no such object."""


class TruncatedError(HarnessError):
    """The end of a command's output is missing."""


class KubernetesTarget(NamedTuple):
    """A cluster of brokers in Kubernetes: ``CONTEXT/NAMESPACE/CLUSTER[@HOST:PORT]``.

    A context's name may have slashes. The address is that of a broker, if no Service has one.
    """

    context: str
    namespace: str
    cluster: str
    bootstrap: str

    @classmethod
    def parse(cls, text: str) -> "KubernetesTarget":
        """Read the value of ``--kubernetes``."""
        context, _, rest = text.rpartition("/")
        context, _, namespace = context.rpartition("/")
        cluster, _, bootstrap = rest.partition("@")
        if not (context and namespace and cluster):
            raise UsageError(
                f"--kubernetes {text} does not name a cluster",
                hint="Write CONTEXT/NAMESPACE/CLUSTER; kubectl config get-contexts lists contexts.",
            )
        return cls(context, namespace, cluster, bootstrap)


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod, in which commands can be run."""

    pod: str
    name: str


class Namespace:
    """A namespace of the cluster that a context of the kubeconfig names.

    Raises:
        UsageError: the kubeconfig has no such context.
    """

    def __init__(self, context: str, name: str) -> None:
        try:
            api = config.new_client_from_config(context=context)
        except (config.ConfigException, OSError) as error:
            raise UsageError(
                f"the context {context} cannot be used: {error}",
                hint="Check KUBECONFIG; kubectl config get-contexts lists the contexts.",
            ) from error
        api.configuration.retries = urllib3.Retry(2, backoff_factor=0.2)
        self.name = name
        self.core = client.CoreV1Api(api)
        self.apps = client.AppsV1Api(api)
        self.custom = client.CustomObjectsApi(api)
        self._access = client.AuthorizationV1Api(api)

    def ask(
        self, verb: str, resource: str, method: Callable[..., Any], *names: str, **more: object
    ) -> Resource:
        """Call a method of the client for an object in this namespace; return the answer's JSON.

        Raises:
            AbsentError: there is no such object.
            HarnessError: the user may not do this, or the API server does not answer.
        """
        with _asking(verb, resource):
            return _json(method, *names, namespace=self.name, **more)

    def pod(self, name: str) -> Resource:
        """Read a pod."""
        return self.ask("get", "pods", self.core.read_namespaced_pod, name)

    def check_access(self, verb: str, resource: str) -> None:
        """Raise an error if the API server would refuse such a request."""
        kind, _, part = resource.partition("/")
        request = {"namespace": self.name, "verb": verb, "resource": kind, "subresource": part}
        body = {"spec": {"resourceAttributes": request}}
        with _asking("create", "selfsubjectaccessreviews"):
            answer = _json(self._access.create_self_subject_access_review, body)
        if not answer["status"]["allowed"]:
            raise _refusal(verb, resource)

    def execute(
        self, container: Container, script: str, *words: str, limit_s: float, out: IO[bytes]
    ) -> None:
        """Run a script of ``/bin/sh`` in a container, and write its output to a file.

        Raises:
            HarnessError: the container does not run, or the script failed.
            TruncatedError: output is missing.
        """
        with _asking("create", "pods/exec"):
            opened = stream(
                self.core.connect_get_namespaced_pod_exec,
                container.pod,
                self.name,
                container=container.name,
                command=["/bin/sh", "-c", _WITH_END.format(script), "sh", *words],
                stdin=False,
                stdout=True,
                stderr=True,
                tty=False,
                _preload_content=False,
                binary=True,
                _request_timeout=_REQUEST_S,
            )
            with contextlib.closing(opened):
                errors = _drain(opened, out, limit_s)
                status = json.loads(opened.read_channel(_STATUS) or b"{}")
        if status.get("status") != "Success":
            why = errors.decode(errors="replace").strip() or status.get("message", "no status")
            raise HarnessError(f"a command in pod {container.pod} failed: {why}")
        end = max(0, out.seek(0, os.SEEK_END) - len(_END))
        out.seek(end)
        if out.read() != _END:
            raise TruncatedError(f"pod {container.pod} did not send the end of an output")
        out.truncate(end)

    def output(self, container: Container, script: str, *words: str) -> list[str]:
        """Run a script in a container, and return the lines of its output."""
        with io.BytesIO() as out:
            self.execute(container, script, *words, limit_s=_REQUEST_S, out=out)
            return out.getvalue().decode(errors="replace").splitlines()


def _json(method: Callable[..., Any], *names: object, **more: object) -> Resource:
    """Call a method of the client; return the answer's JSON, which no model of the client checks.

    The models refuse the answers of an API server that is much older or newer.
    """
    response = method(*names, **more, _preload_content=False, _request_timeout=_REQUEST_S)
    answer: Resource = json.loads(response.data)
    return answer


def _drain(opened: WSClient, out: IO[bytes], limit_s: float) -> bytearray:
    """Write a command's output to a file until the command ends; return its messages."""
    deadline = time.monotonic() + limit_s
    errors = bytearray()
    while opened.is_open():
        opened.update(timeout=1)
        out.write(opened.read_channel(_STDOUT))
        errors += opened.read_channel(_STDERR)
        if time.monotonic() > deadline:
            raise HarnessError(f"a command in a pod ran longer than {limit_s:g} s")
    out.write(opened.read_channel(_STDOUT))  # what came with the end of the connection
    errors += opened.read_channel(_STDERR)
    return errors


@contextlib.contextmanager
def _asking(verb: str, resource: str) -> Iterator[None]:
    """Convert the errors of the client during a request."""
    try:
        yield
    except ApiException as error:
        reason = str(error.reason)
        handshake = _HANDSHAKE.search(reason)
        status = int(handshake[1]) if handshake else error.status
        if status in _FORBIDDEN:
            raise _refusal(verb, resource) from error
        kind = AbsentError if status == _ABSENT else HarnessError
        message = _MESSAGE.search(str(error.body or reason))
        why = message[1].replace("\\", "") if message else reason
        raise kind(f"the request to {verb} {resource} failed: {why}") from error
    except (urllib3.exceptions.HTTPError, WebSocketException, OSError) as error:
        raise HarnessError(
            f"the API server of Kubernetes does not answer: {error}",
            hint="Check the context in your kubeconfig, and the network.",
        ) from error


def _refusal(verb: str, resource: str) -> HarnessError:
    return HarnessError(
        f"the user of this context has no permission to {verb} {resource}",
        hint="docs/examples/kubernetes/role.yaml has all permissions that Highwater needs.",
    )
