"""The docker driver: one container for each broker, ZooKeeper and controller.

All containers of a cluster are in one network. Each container has a fixed address, to which the
other containers connect. Clients and the probe connect to a loopback address, at which Docker
publishes the container's port. Folders of the run are mounted at the same paths. So log directories
and logs have the same paths as with local processes, even after the container or the harness has
ended.
"""

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

from highwater.clusters.brokers.real_cluster import rehearse
from highwater.clusters.containers import ownership
from highwater.clusters.containers.daemon import Client, connected, errors, user
from highwater.clusters.containers.images import INTO_LOG, Image, release_image
from highwater.clusters.containers.ownership import Claim
from highwater.clusters.core.addresses import (
    BROKER_PORT,
    COORDINATION_PORT,
    PEERS_PORT,
    Address,
    AddressGroup,
    EnsemblePorts,
    InternalAddresses,
    broker_host,
    coordination_host,
    require_free,
)
from highwater.clusters.core.interfaces import BrokerState, NodeOptions
from highwater.clusters.nodes import broker_clock
from highwater.clusters.nodes.jvm import UTF8, Runtime
from highwater.clusters.nodes.site import NodePlan
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.waiting import NotYetError, await_condition
from highwater.harness.releases.release import Release

_TAKES_EFFECT_S: Final = 20.0
_DROPPED_AFTER_S: Final = 0.2
_SUBNET_ATTEMPTS: Final = 20
_LARGEST_PREFIX: Final = 24
_PERIOD_US: Final = 100_000
_MEMORY: Final = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
_NOT_FROZEN: Final = "unable to freeze"  # runc's error when it stops trying


def open_site(
    release: Release, *, brokers: int, wired: bool, options: NodeOptions
) -> "ContainerSite":
    """Return a site that runs containers (0.10.2 and later). Build an image at its first use.

    Raises:
        HarnessError: Docker or an image is missing.
    """
    del wired  # nodes in containers always have an address for other nodes
    ownership.sweep()
    with connected() as client:
        image = release_image(client, release, _rehearse)
    return ContainerSite(release, image, brokers, options.controllers, clocks=options.clocks)


class ContainerSite:
    """A Docker network, and a container for each node that was started."""

    def __init__(
        self,
        release: Release,
        image: Image,
        brokers: int,
        controllers: int = 1,
        *,
        clocks: bool = False,
    ) -> None:
        self._clocks = clocks
        self._images = {release.name: image}
        self._plans: dict[str, NodePlan] = {}
        self._containers: dict[str, Any] = {}
        self._open = True
        self.public = AddressGroup(brokers, controllers)
        self._claim = Claim()
        try:
            with connected() as client, errors("cannot make a network"):
                self._user = user(client)
                self._network, group = _claim_network(client, self._claim)
        except BaseException:
            self.close()
            raise
        self.inside = InternalAddresses(
            brokers={
                id_: Address(host=broker_host(group, id_), port=PEERS_PORT)
                for id_ in self.public.brokers
            },
            coordination={
                id_: Address(host=coordination_host(group, id_), port=COORDINATION_PORT)
                for id_ in self.public.coordination
            },
            ensemble={id_: EnsemblePorts() for id_ in self.public.coordination},
        )
        self._gateway = f"{group}.1"

    def runtime(self, release: Release) -> Runtime:
        if release.name not in self._images:
            with connected() as client:
                self._images[release.name] = release_image(client, release, _rehearse)
        return self._images[release.name].runtime

    @property
    def ensemble_hosts(self) -> Mapping[tuple[int, int], str]:
        return {}

    def wire_host(self, broker: int) -> str:
        """Return the address at which the relay listens for containers: the network's gateway."""
        del broker
        with socket.socket() as probe:
            try:
                probe.bind((self._gateway, 0))
            except OSError as error:
                raise HarnessError(
                    f"the wire cannot listen at {self._gateway}, the gateway of Docker's network",
                    hint="The wire needs Docker on the same Linux machine. Use --cluster local.",
                ) from error
        return self._gateway

    def begin(self, plan: NodePlan) -> "ContainerProcess":
        """Start the node's container. Create it if it is missing or the node's plan has changed."""
        require_free(plan.public, plan.title)
        with errors(f"cannot start the container of {plan.title}"):
            if self._plans.get(plan.name) == plan:
                self._containers[plan.name].start()
            else:
                if plan.name in self._containers:
                    self._containers.pop(plan.name).remove(force=True, v=True)
                self._containers[plan.name] = self._create(plan)
                self._plans[plan.name] = plan
        return ContainerProcess(plan.title, self._containers[plan.name])

    def _create(self, plan: NodePlan) -> Any:  # noqa: ANN401 - docker ships no types
        from docker.types import EndpointConfig, LogConfig, Mount  # noqa: PLC0415 - see daemon
        from testcontainers.core.config import testcontainers_config  # noqa: PLC0415 - for the same reason
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - for the same reason

        testcontainers_config.ryuk_disabled = True  # claims do the same, and need no image
        coordination = plan.public in self.public.coordination.values()
        port = COORDINATION_PORT if coordination else BROKER_PORT
        endpoint = EndpointConfig("1.41", ipv4_address=plan.inside.host)
        image = self._images[plan.release.name].name
        container = DockerContainer(image, name=f"highwater-{self._claim.name}-{plan.name}")
        container.ports[f"{port}/tcp"] = (plan.public.host, plan.public.port)  # type: ignore[assignment]
        clock = broker_clock.environment(plan.log) if self._clocks else {}
        folders = [*plan.folders, *([broker_clock.library().parent] if clock else [])]
        for name, value in {**UTF8, **clock}.items():
            container.with_env(name, value)
        container.with_command([str(plan.log), *plan.command])
        container.with_kwargs(
            entrypoint=list(INTO_LOG),
            labels=self._claim.labels,
            hostname=plan.name,
            user=self._user,
            mounts=[Mount(str(path), str(path), type="bind") for path in folders],
            network=self._network,
            networking_config={self._network: endpoint},
            log_config=LogConfig(type="none"),
            security_opt=["label=disable"],  # SELinux would refuse the mounted folders
        )
        return container.start().get_wrapped_container()

    def answers(self, address: Address) -> bool:
        """Return whether the node listens. Otherwise Docker's proxy closes the connection."""
        with socket.socket() as connection:
            connection.settimeout(1.0)
            if connection.connect_ex((address.host, address.port)):
                return False
            connection.settimeout(_DROPPED_AFTER_S)
            try:
                return bool(connection.recv(1))
            except TimeoutError:
                return True
            except OSError:
                return False

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        with contextlib.suppress(HarnessError), connected() as client, errors("cannot clean up"):
            ownership.remove(client, self._claim.name)
            ownership.forget(self._claim.name)
        self._claim.close()
        self.public.close()


class ContainerProcess:
    """A node's JVM in a container, from its start to its exit. A thread waits for the exit."""

    state: BrokerState = "running"
    status: int | None = None

    def __init__(self, title: str, container: Any) -> None:  # noqa: ANN401 - docker ships no types
        self._title = title
        self._container = container
        self._changed = threading.Condition()
        threading.Thread(target=self._watch, name=f"watch-{title}", daemon=True).start()

    @property
    def pids(self) -> tuple[int, ...]:
        """The JVM's process id; empty if the JVM has exited or runs on another machine."""
        with contextlib.suppress(HarnessError, OSError), errors("lost a container"):
            self._container.reload()
            pid = int(self._container.attrs["State"]["Pid"])
            if pid and self._container.id in Path(f"/proc/{pid}/cgroup").read_text("ascii"):
                return (pid,)
        return ()

    def limit(self, *, cpus: float | None, spare_mb: int | None) -> None:
        quota = -1 if cpus is None else round(cpus * _PERIOD_US)
        most = _MEMORY if spare_mb is None else self._memory() + spare_mb * 2**20
        with errors(f"cannot limit {self._title}"):
            self._container.update(
                cpu_period=_PERIOD_US, cpu_quota=quota, mem_limit=most, memswap_limit=most
            )

    def _memory(self) -> int:
        """Return the bytes of memory in use, without the page cache."""
        with errors(f"cannot measure {self._title}"):
            usage = self._container.stats(stream=False)["memory_stats"]
        stats = usage["stats"]
        return int(usage["usage"]) - int(stats.get("total_cache", stats.get("file", 0)))

    def pause(self) -> None:
        self._do("running", "paused", self._freeze)

    def resume(self) -> None:
        self._do("paused", "running", self._container.unpause)

    def kill(self) -> None:
        if self.state != "down":
            self._ask("cannot kill", self._container.kill)
            if not self.wait(_TAKES_EFFECT_S):
                raise WaitTimeoutError(
                    f"{self._title} did not end after SIGKILL within {_TAKES_EFFECT_S:g} s",
                    hint="Check the machine: its memory may be full, or its disk may not respond.",
                )

    def terminate(self, *, limit_s: float) -> bool:
        if self.state != "down":
            self._ask("cannot stop", lambda: self._container.kill("SIGTERM"))
        return self.wait(limit_s)

    def wait(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.state == "down", timeout_s)

    def release(self) -> None:
        with contextlib.suppress(HarnessError), errors("cannot remove a container"):
            self._container.remove(force=True, v=True)

    def _freeze(self) -> None:
        """Freeze the container. Retry, because a long system call can prevent the freeze."""
        from docker.errors import APIError  # noqa: PLC0415 - see clusters.containers.daemon

        def freeze() -> None:
            try:
                self._container.pause()
            except APIError as error:
                if _NOT_FROZEN not in str(error):
                    raise
                raise NotYetError(str(error)) from error

        what = f"the kernel to freeze {self._title}"
        await_condition(freeze, what=what, limit_s=_TAKES_EFFECT_S, every_s=0.01)

    def _do(self, before: BrokerState, after: BrokerState, verb: Callable[[], None]) -> None:
        if self.state != before:
            return
        self._ask(f"cannot set the state {after} for", verb)
        with self._changed:
            if self.state == before:
                self.state = after

    def _ask(self, doing: str, verb: Callable[[], None]) -> None:
        """Call Docker (``verb``). If the container has exited, ignore the error."""
        try:
            with errors(f"{doing} {self._title}"):
                verb()
        except HarnessError:
            if not self.wait(1.0):
                raise

    def _watch(self) -> None:
        status = None
        with contextlib.suppress(HarnessError), errors("lost a container"):
            status = int(self._container.wait()["StatusCode"])
        with self._changed:
            self.state, self.status = "down", status
            self._changed.notify_all()


def _rehearse(image: Image, release: Release, folder: Path) -> None:
    """Start and stop a broker of an image, so that the JVM writes its class archive."""
    rehearse(release, ContainerSite(release, image, 1), folder)


def _group(subnet: str) -> str:
    """Return the first three numbers of a subnet's addresses: ``172.20.0.0/16`` -> ``172.20.0``.

    Raises:
        HarnessError: the subnet is smaller than /24, so it does not contain every node address.
    """
    network = ip_network(subnet)
    if network.prefixlen > _LARGEST_PREFIX:
        raise HarnessError(
            f"Docker's networks are too small: Docker chose {subnet}",
            hint="Set default-address-pools with a size of 24 or less in Docker's daemon.json.",
        )
    return str(network.network_address).rpartition(".")[0]


def _claim_network(client: Client, claim: Claim) -> tuple[str, str]:
    """Create a network with fixed addresses; return its name and its first three numbers.

    Docker chooses a free range of addresses, but allows fixed addresses only in a range that the
    user chose. So this function lets Docker choose a range, removes that network, and requests the
    same range.
    """
    from docker.errors import APIError  # noqa: PLC0415 - see clusters.containers.daemon
    from docker.types import IPAMConfig, IPAMPool  # noqa: PLC0415 - for the same reason
    from testcontainers.core.network import Network  # noqa: PLC0415 - for the same reason

    labels = {"labels": claim.labels}
    for _ in range(_SUBNET_ATTEMPTS):
        chosen = client.networks.create(claim.name, **labels)
        chosen.reload()
        subnet = chosen.attrs["IPAM"]["Config"][0]["Subnet"]
        chosen.remove()
        ipam = IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)])
        try:
            network = Network(docker_network_kw={**labels, "ipam": ipam}).create()
        except APIError:  # another process has taken the range
            continue
        return network.name, _group(subnet)
    raise HarnessError("Docker provides no range of addresses for a network")
