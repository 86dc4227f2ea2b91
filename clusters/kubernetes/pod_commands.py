"""Commands for the broker in a pod, which inventories of Kubernetes name.

``-m highwater.clusters.kubernetes.pod_commands VERB CONTEXT NAMESPACE POD CONTAINER …``

Kubernetes starts a broker again that was killed. To keep it down, its new process is stopped by a
signal before it listens.
"""

import shlex
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from highwater.clusters.external.inventory import LONGEST_S
from highwater.clusters.kubernetes.api import (
    NEEDED,
    AbsentError,
    Container,
    Namespace,
    Resource,
    TruncatedError,
)
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import NotYetError, await_condition

_HOLD_S: Final = LONGEST_S - 10
"""The guard waits no longer for a command. If the command stopped the new process later, the broker
would not be healed."""

_START_S: Final = 360.0
"""Kubernetes delays the start of a container that ended often by up to five minutes."""

_ROLL_S: Final = 300.0
_READY_S: Final = 280.0
_COPY_S: Final = 540.0
_ROLL: Final = "strimzi.io/manual-rolling-update"

PROCESSES: Final = r"""
for p in /proc/[0-9]*; do
  tr '\n\0' ' \n' 2>/dev/null <$p/cmdline | grep -Eqx '[a-z.]*[.](Supported)?Kafka' || continue
"""
"""The head of a loop of ``/bin/sh`` over the brokers' processes in a container."""

_SIGNAL: Final = (
    PROCESSES
    + r"""
  read -r stat <$p/stat && set -- "$1" "$2" $stat
  [ "$3:${24}" = "$2" ] || { kill -s "$1" "$3" && echo "$3:${24}"; }
done
"""
)
"""Send signal $1 to the broker, unless it is process $2; print the process's id and start time."""

_ARCHIVE: Final = r"""
press=cat; command -v gzip >/dev/null && press='gzip -1'
cd "$2" && tar cf - $(ls -d "$1"-[0-9]* *checkpoint 2>/dev/null) | $press
"""
"""Index files have megabytes of zeros, for which the client would need minutes."""


class BrokerInPod:
    """The process of a broker in a container of a pod."""

    def __init__(self, namespace: Namespace, pod: str, container: str) -> None:
        self._namespace = namespace
        self._pod = pod
        self._container = Container(pod, container)

    def check(self) -> None:
        """Check the permissions, and that the broker's process can be found."""
        for verb, resource in NEEDED:
            self._namespace.check_access(verb, resource)
        self._signal("0")

    def pause(self) -> None:
        """Stop the broker's process with SIGSTOP."""
        self._signal("STOP")

    def resume(self) -> None:
        """Continue the broker's process, as soon as its container runs."""
        await_condition(
            lambda: self._signal("CONT"),
            what=f"a process of Kafka in pod {self._pod}",
            limit_s=_START_S,
            every_s=0.5,
            passing=(HarnessError,),
        )

    def kill(self) -> None:
        """Kill the broker's process, and stop the process that Kubernetes starts in its place."""
        self._end("KILL")

    def stop(self) -> None:
        """Shut the broker down, and stop the process that Kubernetes starts in its place."""
        self._end("TERM")

    def restart(self) -> None:
        """Delete the pod, and wait until its successor is ready."""
        before = self._namespace.pod(self._pod)["metadata"]["uid"]
        self._namespace.ask("delete", "pods", self._namespace.core.delete_namespaced_pod, self._pod)
        self._await_successor(before, _READY_S)

    def roll(self) -> None:
        """Have Strimzi's operator restart the pod, and wait until its successor is ready."""
        before = self._namespace.pod(self._pod)["metadata"]["uid"]
        try:
            self._annotate("true")
            self._await_successor(before, _ROLL_S)
        finally:
            self._annotate(None)

    def copy(self, topic: str, into: str, directories: str) -> None:
        """Copy a topic's directories and the checkpoints of log directories into a folder."""
        for directory in shlex.split(directories):
            await_condition(
                partial(self._copy, topic, into, directory),
                what=f"the whole archive of {directory} in pod {self._pod}",
                limit_s=_COPY_S,
                passing=(TruncatedError,),
            )

    def _copy(self, topic: str, into: str, directory: str) -> None:
        with tempfile.TemporaryFile() as archive:
            self._namespace.execute(
                self._container, _ARCHIVE, topic, directory, limit_s=_COPY_S, out=archive
            )
            archive.seek(0)
            try:
                with tarfile.open(fileobj=archive) as files:
                    files.extractall(into, filter="data")
            except tarfile.TarError as error:
                raise HarnessError(
                    f"pod {self._pod} sent no archive of {directory} (it needs tar): {error}"
                ) from error

    def _end(self, signal: str) -> None:
        """End the broker's process by a signal, and stop the process that takes its place."""
        ended = self._signal(signal)
        await_condition(
            lambda: self._signal("STOP", ended),
            what=f"Kubernetes to start pod {self._pod} again (it waits longer after each crash;"
            " if you delete the pod, it does not wait)",
            limit_s=_HOLD_S,
            passing=(HarnessError,),
        )

    def _signal(self, signal: str, other_than: str = "") -> str:
        """Send a signal to the broker's process; return its process id and start time."""
        lines = self._namespace.output(self._container, _SIGNAL, signal, other_than)
        if not lines:
            raise HarnessError(f"pod {self._pod} has no process of Kafka")
        return lines[0]

    def _annotate(self, value: str | None) -> None:
        body = {"metadata": {"annotations": {_ROLL: value}}}
        core = self._namespace.core
        self._namespace.ask("patch", "pods", core.patch_namespaced_pod, self._pod, body=body)

    def _await_successor(self, uid: str, limit_s: float) -> None:
        def ready() -> str:
            pod = self._namespace.pod(self._pod)
            if pod["metadata"]["uid"] == uid:
                raise NotYetError("it is the same pod")
            if not _is_ready(pod):
                raise NotYetError(f"the new pod is {pod['status']['phase']}, and not ready")
            return str(pod["metadata"]["uid"])

        await_condition(
            ready,
            what=f"a new pod {self._pod} to be ready",
            limit_s=limit_s,
            every_s=0.5,
            passing=(AbsentError,),
        )


def _is_ready(pod: Resource) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


VERBS: Final[Mapping[str, Callable[..., None]]] = {
    "check": BrokerInPod.check,
    "kill": BrokerInPod.kill,
    "pause": BrokerInPod.pause,
    "resume": BrokerInPod.resume,
    "start": BrokerInPod.resume,
    "stop": BrokerInPod.stop,
    "restart": BrokerInPod.restart,
    "roll": BrokerInPod.roll,
    "copy": BrokerInPod.copy,
}


def main(verb: str, context: str, namespace: str, pod: str, container: str, *words: str) -> None:
    """Run one command."""
    try:
        VERBS[verb](BrokerInPod(Namespace(context, namespace), pod, container), *words)
    except HarnessError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
