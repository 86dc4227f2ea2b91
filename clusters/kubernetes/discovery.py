"""Find a cluster of brokers in Kubernetes, and describe it as an inventory.

The cluster is a ``Kafka`` resource of Strimzi or a StatefulSet. Each pod's container says which
broker it has: its process keeps the file ``.lock`` of each log directory open, and each directory
has the broker's id in ``meta.properties``.
"""

import base64
import contextlib
import logging
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import UnreachableError
from highwater.clusters.external.identity import fitting_releases
from highwater.clusters.external.inventory import Commands, Inventory, Verb, to_toml
from highwater.clusters.external.metadata import ClusterIdentity, answers, query_identity
from highwater.clusters.external.security import dialer
from highwater.clusters.kubernetes.api import (
    AbsentError,
    Container,
    KubernetesTarget,
    Namespace,
    Resource,
)
from highwater.clusters.kubernetes.pod_commands import PROCESSES
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.base.user_dirs import state_directory
from highwater.harness.releases.cluster_facts import numbers

USER: Final = "highwater"
"""The ``KafkaUser`` with which listeners of Strimzi that need one are used."""

_LOG: Final = logging.getLogger("highwater.external")
_STRIMZI: Final = "kafka.strimzi.io"
_VERSIONS: Final = ("v1", "v1beta2")
_BROKER: Final = "kafka"
_LIMITS: Final[dict[Verb, float]] = {"kill": 75.0, "start": 400.0, "resume": 400.0}
_NEEDS_PROCESS: Final = ("kill", "stop", "start", "pause", "resume")
_FACTS: Final = (
    PROCESSES
    + r"""
  echo "pid ${p#/proc/}"
  ls -l $p/fd | sed -n 's/.*kafka-clients-\([0-9.]*\)[.]jar$/version \1/p'
  ls -l $p/fd | sed -n 's/.* -> \(.*\)\/[.]lock$/\1/p' | while read -r d; do
    echo "directory $d"
    sed -n -E 's/^(node|broker)[.]id=/id /p' "$d/meta.properties"
  done
done
"""
)
"""Print the id of the broker's process, its release, its log directories and its broker id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One way to reach the brokers: addresses, and settings of librdkafka."""

    bootstrap: str
    client: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A cluster of brokers in a namespace.

    Attributes:
        place: the text that the code of the cluster depends on.
        strimzi: whether Strimzi's operator runs the cluster.
        release: the release of Kafka as the resource names it; empty if it does not.
    """

    namespace: Namespace
    place: str
    pods: list[Resource]
    access: Access
    identity: ClusterIdentity
    strimzi: bool
    release: str = ""


def inventory_path(target: str) -> Path:
    """Return the path of a target's inventory. The folder also has its certificates."""
    return state_directory() / "kubernetes" / quote(target, safe="") / "inventory.toml"


def locate(text: str) -> Located:
    """Find a cluster and a listener of it that responds. No command runs in its pods.

    Raises:
        HarnessError: there is no such cluster, no listener responds, or a permission is missing.
    """
    target = KubernetesTarget.parse(text)
    namespace = Namespace(target.context, target.namespace)
    custom = namespace.custom
    for version in _VERSIONS:
        with contextlib.suppress(AbsentError):
            resource = namespace.ask(
                "get",
                "kafkas.kafka.strimzi.io",
                custom.get_namespaced_custom_object,
                group=_STRIMZI,
                version=version,
                plural="kafkas",
                name=target.cluster,
            )
            return _strimzi(target, text, namespace, resource)
    with contextlib.suppress(AbsentError):
        return _stateful_set(target, namespace)
    raise UsageError(
        f"namespace {target.namespace} has neither a Kafka resource nor a StatefulSet"
        f" {target.cluster}",
        hint="Check CONTEXT/NAMESPACE/CLUSTER.",
    )


def describe(text: str, *, by_operator: bool = False) -> Path:
    """Write the inventory of a cluster to a file, and return its path.

    Args:
        by_operator: whether Strimzi's operator restarts brokers.
    """
    located = locate(text)
    target = KubernetesTarget.parse(text)
    brokers: dict[int, dict[str, str | int]] = {}
    release, alone = located.release, []
    for pod in located.pods:
        container = Container(pod["metadata"]["name"], _container(pod))
        facts = _facts(located.namespace, container)
        broker = int(next(iter(facts["id"]), "-1"))
        if broker not in located.identity.addresses:
            _LOG.warning("pod %s has no registered broker, and gets no faults", container.pod)
            continue
        directories = shlex.join(dict.fromkeys(facts["directory"]))
        table = {"pod": container.pod, "container": container.name, "directories": directories}
        brokers[broker] = table  # type: ignore[assignment]
        release = release or next(iter(facts["version"]), "")
        alone += [container.pod] if facts["pid"] == ["1"] else []
    if not brokers:
        raise HarnessError(f"no pod of {target.cluster} runs one of its brokers")
    inventory = Inventory(
        bootstrap=located.access.bootstrap,
        kafka=_catalogued(release, located.identity),
        brokers=dict(sorted(brokers.items())),
        commands=_commands(target, signals=not alone, roll=by_operator and located.strimzi),
        limits=_LIMITS,
        client=dict(located.access.client),
        place=located.place,
    )
    path = inventory_path(text)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600)
    path.write_text(to_toml(inventory), encoding="utf-8")
    if alone:
        _LOG.warning(
            "kill, stop and pause are not possible: Kafka has process id 1 in %s. Linux ignores its"
            " SIGSTOP and SIGKILL; an init (tini) or shareProcessNamespace changes this.",
            ", ".join(alone),
        )
    return path


def _strimzi(
    target: KubernetesTarget, text: str, namespace: Namespace, resource: Resource
) -> Located:
    labels = f"strimzi.io/cluster={target.cluster},strimzi.io/name={target.cluster}-kafka"
    labels += ",strimzi.io/broker-role!=false"
    status = resource.get("status", {})
    listed = {entry["name"]: entry for entry in status.get("listeners", ())}
    listeners = resource["spec"]["kafka"]["listeners"]
    listeners = sorted(listeners, key=lambda listener: listener["type"] == "internal")
    ways = (
        _listener(namespace, text, listener, listed[listener["name"]])
        for listener in listeners
        if listed.get(listener["name"], {}).get("bootstrapServers")
    )
    access, identity = _responding(ways, "the Kafka resource has no listener that responds here")
    return Located(
        namespace=namespace,
        place=_place(target, "Kafka", resource["metadata"]["uid"]),
        pods=_pods(namespace, labels),
        access=access,
        identity=identity,
        strimzi=True,
        release=status.get("kafkaVersion", ""),
    )


def _listener(namespace: Namespace, text: str, listener: Resource, status: Resource) -> Access:
    """Return the settings for a listener of Strimzi; write its certificates to files."""
    kind = listener.get("authentication", {}).get("type", "")
    secret: dict[str, bytes] = {}
    if kind:
        read = namespace.core.read_namespaced_secret
        try:
            answer = namespace.ask("get", "secrets", read, USER)
        except AbsentError as error:
            raise HarnessError(
                f"the listener {listener['name']} needs the KafkaUser {USER}, which has no secret"
            ) from error
        secret = {name: base64.b64decode(value) for name, value in answer["data"].items()}
    client = {"security.protocol": "SASL_" if kind == "scram-sha-512" else ""}
    client["security.protocol"] += "SSL" if listener["tls"] else "PLAINTEXT"
    files = {}
    if listener["tls"]:
        files["ssl.ca.location"] = "\n".join(status.get("certificates", ())).encode()
    match kind:
        case "tls":
            files["ssl.certificate.location"] = secret["user.crt"]
            files["ssl.key.location"] = secret["user.key"]
        case "scram-sha-512":
            client |= {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": USER}
            client["sasl.password"] = secret["password"].decode()
    for setting, content in files.items():
        path = inventory_path(text).with_name(f"{setting}.pem")
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(content)
        client[setting] = str(path)
    return Access(bootstrap=status["bootstrapServers"], client=client)


def _stateful_set(target: KubernetesTarget, namespace: Namespace) -> Located:
    owner = namespace.ask(
        *("get", "statefulsets.apps", namespace.apps.read_namespaced_stateful_set),
        target.cluster,
    )
    uid = owner["metadata"]["uid"]
    labels = owner["spec"]["selector"].get("matchLabels", {})
    selected = _pods(namespace, ",".join(f"{key}={value}" for key, value in labels.items()))
    pods = [pod for pod in selected if uid in _owners(pod) and "podIP" in pod["status"]]
    if target.bootstrap:
        ways = iter([Access(bootstrap=target.bootstrap)])
    else:
        services = namespace.ask("list", "services", namespace.core.list_namespaced_service)
        addresses = _addresses(services["items"], pods)
        ways = (Access(bootstrap=address) for address in dict.fromkeys(addresses))
    access, identity = _responding(
        ways, "no Service or pod has an address at which a broker responds here"
    )
    return Located(
        namespace=namespace,
        place=_place(target, "StatefulSet", uid),
        pods=pods,
        access=access,
        identity=identity,
        strimzi=False,
    )


def _addresses(services: list[Resource], pods: list[Resource]) -> Iterator[str]:
    """Return the addresses of the Services that select the pods, and those of the pods."""
    for service in services:
        spec, name = service["spec"], service["metadata"]["name"]
        selector = spec.get("selector", {}).items()
        chosen = [pod for pod in pods if selector and selector <= pod["metadata"]["labels"].items()]
        for port in spec.get("ports", ()) if chosen else ():
            for ingress in service["status"].get("loadBalancer", {}).get("ingress", ()):
                yield f"{ingress.get('hostname') or ingress['ip']}:{port['port']}"
            for pod in chosen if "nodePort" in port else ():
                yield f"{pod['status']['hostIP']}:{port['nodePort']}"
            yield f"{name}.{service['metadata']['namespace']}.svc:{port['port']}"
    for pod in pods:
        for container in pod["spec"]["containers"]:
            for port in container.get("ports", ()):
                yield f"{pod['status']['podIP']}:{port['containerPort']}"


def _responding(ways: Iterator[Access], failure: str) -> tuple[Access, ClusterIdentity]:
    """Return the first access that works, and the cluster's identity."""
    failures = []
    for access in ways:
        dial = dialer(access.client)
        for text in access.bootstrap.split(","):
            try:
                identity = query_identity(replace(Address.parse(text), dial=dial))
            except UnreachableError as error:
                failures.append(error.message)
                continue
            if any(map(answers, identity.addresses.values())):
                return access, identity
            listed = ", ".join(map(str, identity.addresses.values()))
            failures.append(f"{text} lists brokers that do not respond here: {listed}")
    raise HarnessError(
        f"{failure}: {'; '.join(failures[-3:]) or 'there is none'}",
        hint="Write CONTEXT/NAMESPACE/CLUSTER@HOST:PORT, or an inventory (docs/external.md).",
    )


def _pods(namespace: Namespace, labels: str) -> list[Resource]:
    read = namespace.core.list_namespaced_pod
    pods: list[Resource] = namespace.ask("list", "pods", read, label_selector=labels)["items"]
    return pods


def _owners(pod: Resource) -> list[str]:
    return [owner["uid"] for owner in pod["metadata"].get("ownerReferences", ())]


def _place(target: KubernetesTarget, kind: str, uid: str) -> str:
    return f"{kind} {target.context}/{target.namespace}/{target.cluster} (uid {uid})"


def _container(pod: Resource) -> str:
    names = [container["name"] for container in pod["spec"]["containers"]]
    return _BROKER if _BROKER in names else str(names[0])


def _facts(namespace: Namespace, container: Container) -> dict[str, list[str]]:
    facts: dict[str, list[str]] = {name: [] for name in ("pid", "version", "directory", "id")}
    for line in namespace.output(container, _FACTS):
        name, _, value = line.partition(" ")
        facts[name].append(value)
    return facts


def _catalogued(name: str, identity: ClusterIdentity) -> str:
    """Return the release of the catalogue that is nearest to a release and fits the brokers.

    Args:
        name: the release that the resource or a container names; empty if none does.

    Raises:
        UsageError: no release fits the brokers' requests.
    """
    fitting = fitting_releases(identity)
    if not fitting:
        raise UsageError(
            f"no known release fits the brokers of {identity.stands_for}",
            hint="highwater versions lists the known releases. The oldest possible one is 0.10.1.",
        )
    older = [entry for entry in fitting if entry.number <= numbers(name)]
    if older:
        return older[-1].name
    _LOG.warning(
        "%s, and the brokers' requests fit Kafka %s: %s is used",
        f"the pods name Kafka {name}" if name else "no pod names its release of Kafka",
        ", ".join(entry.name for entry in fitting),
        fitting[0].name,
    )
    return fitting[0].name


def _commands(target: KubernetesTarget, *, signals: bool, roll: bool) -> Commands:
    program = shlex.join([sys.executable, "-m", "highwater.clusters.kubernetes.pod_commands"])
    where = f"{shlex.join([target.context, target.namespace])} {{pod}} {{container}}"
    lines = {verb: f"{program} {verb} {where}" for verb in Commands.__struct_fields__}
    lines["copy"] += " {topic} {into} {directories}"
    lines["restart"] = f"{program} {'roll' if roll else 'restart'} {where}"
    absent = () if signals else _NEEDS_PROCESS
    return Commands(**{verb: line for verb, line in lines.items() if verb not in absent})
