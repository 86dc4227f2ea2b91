"""The local driver: brokers as processes of this machine, each on its own loopback address."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from highwater.clusters.brokers.real_cluster import rehearse
from highwater.clusters.core.addresses import (
    Address,
    Addresses,
    AddressGroup,
    InternalAddresses,
    require_free,
)
from highwater.clusters.core.interfaces import PLAIN, NodeOptions
from highwater.clusters.local.jvm_process import ChildProcess
from highwater.clusters.nodes import broker_clock, flush_trace, jvm
from highwater.clusters.nodes.site import NodePlan
from highwater.clusters.nodes.wiring import LISTENER_NAMES
from highwater.clusters.releases.jars import classpath, lock_file, remote_storage_classpath
from highwater.harness.base import jvm_class_archive
from highwater.harness.base.scratch import temporary
from highwater.harness.releases.catalogue import Release


def open_site(release: Release, *, brokers: int, wired: bool, options: NodeOptions) -> "LocalSite":
    """Return a site that runs local processes. Write a release's class archive at its first use.

    Args:
        wired: whether the relay will be between the nodes.

    Raises:
        HarnessError: Java, the jars or libfaketime are missing.
    """
    if options.clocks:
        broker_clock.library()
    return LocalSite(release, brokers, _sharing(release), wired=wired, options=options)


class LocalSite:
    """Runs a cluster's nodes on this machine: a guard process for each JVM, and an address group.

    Attributes:
        inside: the addresses at which nodes connect to each other. With a relay or with names,
            brokers since 0.10.2 listen for other brokers on a second port.
    """

    def __init__(
        self,
        release: Release,
        brokers: int,
        sharing: Sequence[str],
        *,
        wired: bool = False,
        options: NodeOptions = PLAIN,
    ) -> None:
        self._options = options
        self._runtimes = {release.name: self._runtime(release, sharing)}
        self.public = AddressGroup(brokers, options.controllers)
        self.inside: Addresses = self.public
        if (wired or options.names) and release.number >= LISTENER_NAMES:
            self.inside = InternalAddresses(
                brokers=self.public.peers,
                coordination=self.public.coordination,
                ensemble=self.public.ensemble,
            )

    def runtime(self, release: Release) -> jvm.Runtime:
        if release.name not in self._runtimes:
            self._runtimes[release.name] = self._runtime(release, _sharing(release))
        return self._runtimes[release.name]

    @property
    def ensemble_hosts(self) -> Mapping[tuple[int, int], str]:
        return self.public.ensemble_hosts

    def wire_host(self, broker: int) -> str:
        return self.public.brokers[broker].host

    def begin(self, plan: NodePlan) -> ChildProcess:
        require_free(plan.public, plan.title)
        if self._options.clocks:
            plan = replace(plan, command=broker_clock.command(plan.command, plan.log))
        return ChildProcess(
            plan.title,
            flush_trace.command(plan) if self._options.trace_flushes else plan.command,
            log=plan.log,
            directory=plan.log.parent,
            environment=jvm.environment(),
        )

    def answers(self, address: Address) -> bool:
        with socket.socket() as trial:
            trial.settimeout(1.0)
            return trial.connect_ex((address.host, address.port)) == 0

    def close(self) -> None:
        self.public.close()

    def _runtime(self, release: Release, sharing: Sequence[str]) -> jvm.Runtime:
        more = remote_storage_classpath(release) if self._options.tiered else []
        jars = tuple(str(path) for path in [*classpath(release), *more])
        return jvm.Runtime(java=str(jvm.java()), jars=jars, sharing=tuple(sharing))


def _sharing(release: Release) -> jvm_class_archive.Flags:
    """Return JVM flags that use a release's class archive. Write the archive at its first use."""
    jars = lock_file(release).read_bytes()
    program = jvm_class_archive.Program(name=f"kafka-{release.name}", java=jvm.java(), jars=jars)
    return jvm_class_archive.flags(program, partial(_rehearse, release))


def _rehearse(release: Release, sharing: Sequence[str]) -> None:
    with temporary("rehearsal") as directory:
        rehearse(release, LocalSite(release, 1, sharing), directory)
