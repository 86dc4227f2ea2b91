"""The preflight check: raise an error before the run if its plan cannot be executed."""

import re
import shutil
from typing import Final

import msgspec

from highwater.clusters.drivers import require_driver
from highwater.clusters.nodes.flush_trace import STRACE
from highwater.clusters.releases.jars import remote_storage_jars
from highwater.harness.base import limits
from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.base.wording import count
from highwater.harness.releases.catalogue import Release, release
from highwater.harness.releases.client_choice import (
    KAFKA_PYTHON,
    LIBRDKAFKA,
    ClientChoice,
    read_client,
)
from highwater.harness.releases.group_protocols import (
    CLASSIC,
    CONSUMER,
    CONSUMER_SINCE,
    SHARE_SINCE,
    GroupProtocol,
)
from highwater.harness.runs.options import options_of
from highwater.harness.runs.plan import EXTERNAL, Plan, ProgramPlan, Workload
from highwater.harness.runs.programs.expressions import Expression, expression
from highwater.harness.runs.programs.feed import read_feed
from highwater.harness.runs.topics.record_keys import TIMESTAMPS
from highwater.nemesis.faults.registry import MESSAGE, OF_MACHINE
from highwater.nemesis.model_replay.script_lookup import find_script
from highwater.nemesis.model_replay.transaction_replay import is_transaction_replay
from highwater.nemesis.schedules.cluster_needs import log_dirs
from highwater.nemesis.schedules.fault_spec import FaultSpec
from highwater.nemesis.schedules.generator import check_duration
from highwater.nemesis.schedules.upgrade_path import check_levels
from highwater.nemesis.schedules.validation import check_budget, check_steps
from highwater.nemesis.stories.registry import Story, find_story
from highwater.nemesis.stories.story import NOTHING
from highwater.runtime.programs.instances import resolved

_FOLLOWERS_SERVE: Final = (2, 4)
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*=")


def check_plan(plan: Plan) -> None:
    """Raise an error if a plan cannot be executed.

    Raises:
        UsageError: the plan cannot be executed; the error names the option and the alternatives.
    """
    kafka = release(plan.kafka)
    if plan.driver == EXTERNAL:
        _check_external(plan)
    else:
        require_driver(plan.driver, kafka)
    if plan.read_only:
        _check_read_only(plan)
    _check_limits(plan)
    check_controllers(plan.controllers)
    _check_nodes(plan, kafka)
    _check_schedule(plan)
    check_levels(plan)
    _check_client(plan, kafka)
    if plan.program is not None:
        _check_program(plan, plan.program)


def _check_program(plan: Plan, program: ProgramPlan) -> None:
    resolved(program.command)
    if program.out == plan.topic.name:
        raise UsageError(
            f"the program cannot both read and write {program.out}", hint="Name two topics."
        )
    for topic in filter(None, (plan.topic.name, program.out)):
        if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
            raise UsageError(
                f"{topic!r} is not a valid topic name",
                hint="Use letters, digits, dots, _ and -.",
            )
    names = expression(program.match)
    if program.when:
        expression(program.when)
    if program.feed:
        _check_feed(plan, program, names)
    for variable in program.env:
        if not _VARIABLE.match(variable):
            raise UsageError(
                f"--env {variable!r} does not set a variable",
                hint="Write --env BROKERS={bootstrap}.",
            )


def _check_feed(plan: Plan, program: ProgramPlan, names: Expression) -> None:
    workload = plan.workload
    refused = plan.client != LIBRDKAFKA or workload.producers != 1
    if refused or workload.transactions or workload.churn_s:
        raise UsageError(
            "--feed needs one producer, of librdkafka and without transactions",
            hint="Leave out --feed, or the client settings.",
        )
    read_feed(program.feed, names)


def _check_external(plan: Plan) -> None:
    if plan.external is None:
        raise UsageError(
            "an external cluster needs an inventory",
            hint="Use highwater run --inventory FILE (docs/external.md).",
        )
    story = "" if plan.story is None else find_story(plan.story).missing(plan)
    refused = {
        story: bool(story),
        "a replay needs its own broker settings": plan.schedule is not None,
        "the cluster's owner decides the broker settings": bool(plan.broker_config),
        "only the cluster's owner upgrades it": bool(plan.to or plan.protocol or plan.format),
        "the relay works only between nodes that Highwater starts": plan.wire or plan.wire_clients,
        "the cluster's owner runs its controllers and ZooKeepers": plan.controllers != 1,
        "the cluster's owner runs its brokers": (
            plan.trace_flushes or plan.log_dirs != 1 or plan.racks != 0 or plan.tiered
        ),
        f"the inventory has {len(plan.external.brokers)} brokers": (
            plan.brokers != len(plan.external.brokers)
        ),
    }
    for why, requested in refused.items():
        if requested:
            raise UsageError(
                f"this option is not available on your own cluster: {why}",
                hint="docs/external.md lists the available options.",
            )


def _check_read_only(plan: Plan) -> None:
    """Raise an error if a plan that only reads would also write, or change the cluster."""
    readers = Workload(producers=0)
    for name in ("consumers", "isolation", "churn_s"):
        readers = msgspec.structs.replace(readers, **{name: getattr(plan.workload, name)})
    words = (*plan.nemesis, *(step.fault for step in plan.steps))
    faults = [FaultSpec.of(word).fault for word in words]
    changing = [fault.name for fault in faults if fault.family != "process"]
    refused = {
        "it needs your own cluster: add --inventory FILE or --kubernetes": plan.external is None,
        "a story sends records": plan.story is not None or plan.schedule is not None,
        "a program writes": plan.program is not None,
        "it starts only readers, without a group": plan.workload != readers,
        "it needs a reader": not plan.workload.consumers,
        "it reads with librdkafka, which returns a record's headers": (
            (plan.client, plan.reader_client) != (LIBRDKAFKA, LIBRDKAFKA)
        ),
        "an outage without an acknowledgement cannot be measured": plan.max_outage_s > 0,
        f"the fault {''.join(changing[:1])} does more than stop, pause and start brokers": (
            bool(changing)
        ),
    }
    for why, requested in refused.items():
        if requested:
            raise UsageError(
                f"--read-only {plan.read_only} is not possible here: {why}",
                hint="docs/external.md describes runs that only read.",
            )


def _check_limits(plan: Plan) -> None:
    topic = plan.topic
    bounds = [
        *(
            (option.of(whole), *option.limit, option.unit)
            for whole in (plan, *([plan.program] if plan.program else []))
            for option in options_of(type(whole)).values()
            if option.limit
        ),
        (plan.racks, 0, plan.brokers, "racks"),
        (topic.replication_factor, 1, plan.brokers, "replicas of a partition"),
        (topic.min_insync_replicas, 1, topic.replication_factor, "min.insync.replicas"),
        (len(plan.steps), *limits.STEPS, "steps"),
    ]
    for value, least, most, what in bounds:
        if not least <= value <= most:
            raise limits.out_of_range(value, least, most, what)


def check_controllers(controllers: int) -> None:
    """Raise an error if the number of controllers or ZooKeepers is wrong.

    Raises:
        UsageError: the number is wrong; the message names the possible numbers.
    """
    least, most = limits.CONTROLLERS
    if not least <= controllers <= most:
        raise limits.out_of_range(controllers, least, most, "controllers")
    if controllers % 2 == 0:
        raise UsageError(
            f"{controllers} controllers tolerate only as many failures as {controllers - 1}",
            hint="Use an odd number: 1, 3 or 5.",
        )


def _check_nodes(plan: Plan, kafka: Release) -> None:
    """Raise an error for racks, log directories, tiers or traces that the nodes do not support."""
    if plan.trace_flushes and plan.driver != "local":
        raise UsageError(
            "--trace-flushes traces processes of this machine, not containers",
            hint="Use --cluster local.",
        )
    if plan.trace_flushes and shutil.which(STRACE) is None:
        raise UsageError("--trace-flushes needs strace", hint="Install strace (on Linux).")
    if plan.racks and kafka.number < _FOLLOWERS_SERVE:
        raise UsageError(
            f"with Kafka {kafka.name}, readers fetch only from leaders",
            hint="Readers use racks since 2.4 (KIP-392). Leave --racks out.",
        )
    if log_dirs(plan) > 1:
        _check_log_dirs(plan)
    if plan.tiered:
        _check_remote_tier(plan, kafka)


def _check_remote_tier(plan: Plan, kafka: Release) -> None:
    if plan.driver != "local":
        raise UsageError(
            "containers have no common directory for the remote tier", hint="Use --cluster local."
        )
    if not remote_storage_jars(kafka):
        raise UsageError(
            f"Kafka {kafka.name} has no tiered storage",
            hint="Tiered storage came with 3.6 (KIP-405).",
        )
    if plan.workload.keys:
        raise UsageError(
            "a compacted topic has no remote tier", hint="Leave out --keys or --tiered."
        )


def _check_log_dirs(plan: Plan) -> None:
    if plan.driver != "local":
        raise UsageError("a container has only one log directory", hint="Use --cluster local.")
    if plan.log_dirs > 1 and (plan.story is not None or plan.schedule is not None):
        raise UsageError(
            "a story decides how many log directories a broker has",
            hint="Leave --log-dirs out, or use a nemesis.",
        )


def _check_schedule(plan: Plan) -> None:
    if plan.story is not None and plan.nemesis:
        raise UsageError(
            "a run has a story or a nemesis, not both", hint="Leave out the story or the nemesis."
        )
    if plan.schedule is not None and (plan.story or plan.nemesis or plan.steps):
        raise UsageError("a replay has neither a story nor a nemesis", hint="Leave it out.")
    if plan.steps and (plan.story or plan.nemesis):
        raise UsageError("steps cannot be combined with a story or a nemesis", hint="Leave it out.")
    check_steps(plan, release(plan.kafka))
    check_budget(plan)
    _check_nemesis(plan)
    find_script(plan)
    if plan.story is not None:
        _check_story(plan, find_story(plan.story))
    elif plan.topic.added:
        raise UsageError("only a story adds partitions", hint="Leave `added` out.")


def _check_story(plan: Plan, story: Story) -> None:
    if plan.topic.replication_factor < 3:  # noqa: PLR2004 - its A, B and C
        raise UsageError("a story needs three replicas", hint="Use --brokers 3.")
    if plan.brokers < story.brokers:
        raise UsageError(
            f"the story {story.name} needs {story.brokers} brokers: one of them is only the "
            "controller",
            hint=f"Use --brokers {story.brokers}.",
        )
    if reason := story.why_not(release(plan.kafka)):
        raise UsageError(
            f"the story {story.name} cannot run on Kafka {plan.kafka}: {reason}",
            hint="Choose another release, or another story.",
        )
    if reason := OF_MACHINE.get(story.needs.machine, str)():
        raise UsageError(f"the story {story.name} {reason}", hint="Choose another story.")
    if plan.topic.min_insync_replicas > story.min_isr_most:
        raise UsageError(
            "a story leaves only one replica alive, which must accept records alone",
            hint=f"Use --min-isr {story.min_isr_most}, or a nemesis, which works with any "
            "--min-isr.",
        )
    if story.needs.controllers not in {0, plan.controllers}:
        raise UsageError(
            f"the story {story.name} needs {count(story.needs.controllers, 'controller')}",
            hint="Leave --controllers out.",
        )
    if plan.topic.added != story.needs.added or plan.topic.partitions <= story.needs.added:
        raise UsageError(
            f"the story {story.name} adds {story.needs.added} of its topic's partitions, but the "
            f"plan has {plan.topic.partitions} partitions, {plan.topic.added} of them added",
            hint="Leave --partitions out.",
        )
    if plan.topic.partitions < story.needs.all_partitions:
        raise UsageError(
            f"the story {story.name} needs {story.needs.all_partitions} partitions",
            hint="Leave --partitions out.",
        )
    if plan.workload.producers:
        raise UsageError(
            "a story sends every record itself, because it must know the offset of each",
            hint="Leave --producers out, or use a nemesis.",
        )


def _check_nemesis(plan: Plan) -> None:
    for word in plan.nemesis:
        spec = FaultSpec.of(word)
        if spec.fault.needs == MESSAGE:
            raise UsageError(
                f"a random schedule cannot have {spec.fault.name}, because the fault needs a "
                "message",
                hint="Use --message 'hold EndTxn …', or a step with a message (docs/wire.md).",
            )
        spec.require(plan, release(plan.kafka))
    if plan.nemesis:
        check_duration(plan.duration_s)
    if plan.calm_s and not limits.CALM_S.least <= plan.calm_s <= limits.CALM_S.most:
        raise UsageError(
            f"{plan.calm_s:g} s between storms: out of range", hint=f"{limits.CALM_S.lasting}."
        )
    if plan.calm_s and not plan.nemesis:
        raise UsageError(
            "--calm has no effect without random faults", hint="Name faults with --nemesis."
        )


def _check_client(plan: Plan, kafka: Release) -> None:
    workload = plan.workload
    if workload.compression not in kafka.compressions:
        raise UsageError(
            f"Kafka {kafka.name} does not support compression {workload.compression!r}",
            hint=nearest(workload.compression, kafka.compressions),
        )
    _check_transactions(plan, kafka)
    _check_keys(plan, kafka)
    _check_library(plan)
    _check_reader_library(plan)
    if workload.idempotence and not kafka.idempotence:
        raise UsageError(
            f"Kafka {kafka.name} does not support idempotent producers",
            hint="They came with 0.11.0.",
        )
    if workload.idempotence and workload.acks != "all":
        raise UsageError("the idempotent producer needs acks=all", hint="Add --acks all.")
    _check_readers(workload)
    _check_groups(plan, kafka)


def check_group_protocol(protocol: GroupProtocol, kafka: Release) -> None:
    """Raise an error if the brokers do not support the chosen group protocol (KIP-848).

    Raises:
        UsageError: the brokers do not support it; the hint names the first release with support.
    """
    if protocol == CONSUMER and kafka.number < CONSUMER_SINCE:
        raise UsageError(
            f"brokers of Kafka {kafka.name} do not support the consumer group protocol",
            hint="It came with Kafka 4.0 (KIP-848). Use --group-protocol classic, or a later "
            "release.",
        )


def _check_groups(plan: Plan, kafka: Release) -> None:
    workload = plan.workload
    check_group_protocol(workload.group_protocol, kafka)
    if workload.group_protocol == CONSUMER and plan.protocol:
        raise UsageError(
            f"brokers with protocol {plan.protocol} may not support the consumer group protocol",
            hint="Leave --protocol out, or use --group-protocol classic.",
        )
    if workload.share:
        _check_share_group(plan, kafka)
    if workload.group_protocol == CONSUMER and not workload.subscribe:
        raise UsageError("a group protocol needs members of a group", hint="Add --subscribe 3.")


def _check_share_group(plan: Plan, kafka: Release) -> None:
    if kafka.number < SHARE_SINCE or plan.protocol:
        raise UsageError(
            f"brokers of Kafka {plan.software} do not support share groups",
            hint="Share groups came with Kafka 4.1 (KIP-932).",
        )
    choice = read_client(plan.reader_client, plan.played_on)
    if why := choice.why_not_sharing(kafka):
        raise UsageError(
            f"--share is not possible with --reader-client {plan.reader_client}: {why}",
            hint="Use --reader-client java, or librdkafka and Kafka 4.2 or later.",
        )


def _check_library(plan: Plan) -> None:
    """Raise an error if the plan cannot use the producers' library."""
    choice = read_client(plan.client, plan.played_on)
    needs = NOTHING if plan.story is None else find_story(plan.story).needs
    if needs.java and not choice.is_java:
        raise UsageError(
            f"the story {plan.story} needs Kafka's Java producer", hint="Use --client java."
        )
    if needs.waits_for_all and plan.workload.acks != "all":
        raise UsageError(f"the story {plan.story} needs acks=all", hint="Use --acks all.")
    if choice.library == LIBRDKAFKA:
        return
    codec, no_member = plan.workload.compression, choice.why_no_member(CLASSIC)
    refused = {
        "client settings of an external cluster are settings of librdkafka": plan.external
        is not None,
        f"{choice.title} do not read in transactions: {no_member}": (
            plan.workload.transform and bool(no_member)
        ),
        f"{choice.title} do not support transactions": (
            plan.workload.transactions and not choice.idempotence
        ),
        f"{choice.title} do not support idempotent producers": (
            plan.workload.idempotence and not choice.idempotence
        ),
        f"{choice.title} do not support compression {codec}": not choice.compresses(codec),
        **_no_program(choice),
    }
    _refuse(plan, choice, refused, option=f"--client {plan.client}")


def _no_program(choice: ClientChoice) -> dict[str, bool]:
    """Return ``{"… is not an executable program": True}`` if the driver's program is missing."""
    missing = bool(choice.command) and shutil.which(choice.command[0]) is None
    return {f"{''.join(choice.command[:1])} is not an executable program": missing}


def _check_reader_library(plan: Plan) -> None:
    """Raise an error if the plan cannot use the readers' library."""
    choice, workload = read_client(plan.reader_client, plan.played_on), plan.workload
    if choice.library == LIBRDKAFKA:
        return
    codec = workload.compression
    no_member = choice.why_no_member(workload.group_protocol)
    refused = {
        "the run has no readers": not (workload.consumers + workload.members or plan.external),
        "client settings of an external cluster are settings of librdkafka": (
            plan.external is not None and choice.library != KAFKA_PYTHON
        ),
        "only librdkafka reports the broker from which a reader fetches": plan.racks > 0,
        f"{choice.title} do not support compression {codec}": not choice.compresses(codec),
        **_no_program(choice),
        f"{choice.title} cannot be members of such a group: {no_member}": (
            workload.subscribe > 0 and bool(no_member)
        ),
    }
    _refuse(plan, choice, refused, option=f"--reader-client {plan.reader_client}")


def _refuse(plan: Plan, choice: ClientChoice, refused: dict[str, bool], *, option: str) -> None:
    """Raise an error for the first reason that is True, or if the brokers are not supported."""
    mute = {
        f"{choice.title} cannot connect to {brokers}: {why}": True
        for brokers in (plan.kafka, *plan.to)
        if (why := choice.why_not(release(brokers)))
    }
    for why, requested in (refused | mute).items():
        if requested:
            raise UsageError(
                f"{option} is not possible here: {why}",
                hint=f"Use {option.partition(' ')[0]} librdkafka, or java:RELEASE of another"
                " release.",
            )


def _check_keys(plan: Plan, kafka: Release) -> None:
    if not plan.workload.keys:
        return
    refused = {
        "this story or replay sends records without keys": bool(
            plan.schedule or (plan.story and not find_story(plan.story).needs.keys)
        ),
        "a tombstone's name is in its timestamp, which only librdkafka sends": (
            read_client(plan.client, plan.played_on).library != LIBRDKAFKA
        ),
        f"Kafka {kafka.name} does not store timestamps": kafka.number < TIMESTAMPS,
        f"the message format of {plan.format} has no timestamps": bool(
            plan.format and tuple(map(int, plan.format.split(".")[:2])) < TIMESTAMPS
        ),
        "the topic on this cluster would not be compacted": (
            "compact" not in plan.topic.config.get("cleanup.policy", "")
        ),
    }
    for why, requested in refused.items():
        if requested:
            raise UsageError(f"--keys is not possible here: {why}", hint="Leave --keys out.")


def _check_transactions(plan: Plan, kafka: Release) -> None:
    workload = plan.workload
    by_story = plan.story is not None and find_story(plan.story).needs.transactions
    if workload.transform and not workload.transactions:
        raise UsageError("--transform needs transactions", hint="Add --transactions.")
    if workload.transactions and not kafka.idempotence:
        raise UsageError(
            f"Kafka {kafka.name} does not support transactions", hint="They came with 0.11.0."
        )
    if by_story and not workload.transactions:
        raise UsageError(f"the story {plan.story} needs transactions", hint="Add --transactions.")
    has_own = by_story or is_transaction_replay(plan)
    if workload.transactions and not workload.producers and not has_own:
        raise UsageError("transactions need producers", hint="Use --producers 3 and a nemesis.")
    if workload.transactions and not (workload.idempotence and workload.acks == "all"):
        raise UsageError(
            "a transactional producer is idempotent, and waits for all in-sync replicas",
            hint="Use --acks all.",
        )


def _check_readers(workload: Workload) -> None:
    if len(workload.isolation) > max(1, workload.consumers + workload.subscribe):
        raise UsageError(
            f"{len(workload.isolation)} isolation levels need one reader each",
            hint=f"Use --consumers {len(workload.isolation)}.",
        )
    if workload.churn_s and not limits.CHURN_S.least <= workload.churn_s <= limits.CHURN_S.most:
        raise UsageError(
            f"clients that live {workload.churn_s:g} s", hint=f"From {limits.CHURN_S.lasting}."
        )
