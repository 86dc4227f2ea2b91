"""A printed command, given to the command line, makes the plan that it was printed of."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.main import get_command

from highwater import api, console
from highwater.campaigns import soak_run
from highwater.campaigns.matrix_plan import plan_of
from highwater.campaigns.nightly_plan import newest
from highwater.campaigns.nightly_plan import settings as night_settings
from highwater.campaigns.soak_plan import draw
from highwater.campaigns.soak_results import Soak
from highwater.campaigns.soak_run import Bounds
from highwater.cli.app import app
from highwater.clusters.external import cluster, identity
from highwater.harness.campaigns.nightly_cells import NEMESIS_S, NightlyCell
from highwater.harness.releases.catalogue import CATALOGUE, release
from highwater.harness.releases.cluster_facts import POSITIONS
from highwater.harness.runs.likeness import Likeness
from highwater.harness.runs.plan import (
    PROGRAM_WORKLOAD,
    RECORD_NAME,
    External,
    Plan,
    ProgramPlan,
    Topic,
    Workload,
)
from highwater.harness.runs.steps import FaultStep
from highwater.harness.runs.store import Store
from highwater.harness.runs.topics.topic_settings import with_settings
from highwater.nemesis.faults.registry import faults
from highwater.nemesis.stories.registry import STORIES
from highwater.runtime.requested_plan import requested_app
from highwater.shrinking.replay import plan_again

ClientNames = st.sampled_from(["librdkafka", "java", "java:3.9.2", "kafka-python", "aiokafka"])
Kafkas = st.sampled_from(list(CATALOGUE))
_COMMAND = get_command(app)


class PerformedError(Exception):
    """Raised in place of performing anything."""


@pytest.fixture(scope="module")
def parsed() -> Iterator[Callable[[str], Any]]:
    """Return what a command line asks for, without performing it."""
    asked: list[Any] = []

    def take(plans: list[Plan], *_: object, **__: object) -> None:
        asked[:] = plans
        raise PerformedError

    def take_soak(_: object, whole: Soak, bounds: Bounds, **__: object) -> None:
        asked[:] = [(whole, bounds)]
        raise PerformedError

    def read(command: str) -> Any:  # noqa: ANN401 - a plan, or a soak
        program, *words = shlex.split(command)
        assert program == "highwater"
        with pytest.raises(PerformedError):
            _COMMAND.main(words, standalone_mode=False)
        [only] = asked
        return only

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "perform", take)
        patch.setattr(soak_run, "perform", take_soak)
        patch.setattr(console, "finish", None)
        yield read


def seconds(least: float, most: float) -> st.SearchStrategy[float]:
    return st.floats(least, most, allow_nan=False, allow_subnormal=False)


@st.composite
def workloads(draw_: st.DrawFn) -> Workload:
    transactions = draw_(st.booleans())
    subscribe = draw_(st.integers(0, 9))
    return Workload(
        producers=draw_(st.integers(0, 64)),
        consumers=draw_(st.integers(0, 64)),
        acks=draw_(st.sampled_from(["0", "1", "all"])),
        idempotence=transactions or draw_(st.booleans()),
        rate=draw_(st.one_of(st.just(0.0), st.just(1234567.0), seconds(0.01, 1e17))),
        record_bytes=draw_(st.integers(16, 900_000)),
        compression=draw_(st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"])),
        delivery_timeout_s=draw_(seconds(1, 3600)),
        transactions=transactions,
        aborts=draw_(seconds(0, 1)),
        transform=draw_(st.booleans()),
        isolation=draw_(
            st.sampled_from(
                [("read_committed",), ("read_uncommitted",), ("read_uncommitted", "read_committed")]
            )
        ),
        subscribe=subscribe,
        group_protocol=draw_(st.sampled_from(["classic", "consumer"])) if subscribe else "classic",
        share=draw_(st.integers(0, 9)),
        churn_s=draw_(st.one_of(st.just(0.0), seconds(1, 3600))),
        keys=draw_(st.integers(0, 1_000_000)),
        tombstones=draw_(seconds(0, 1)),
    )


@st.composite
def common(draw_: st.DrawFn) -> dict[str, Any]:
    """Settings of a story's plan as of any other."""
    names = draw_(st.lists(st.sampled_from([*faults(), "brokers"]), unique=True, max_size=6))
    return {
        "driver": draw_(st.sampled_from(["local", "docker"])),
        "controllers": draw_(st.sampled_from([1, 3, 5])),
        "budget": {name: draw_(st.integers(0, 9)) for name in names},
        "overlap": draw_(st.integers(1, 9)),
        "calm_s": draw_(st.one_of(st.just(0.0), seconds(1, 3600))) if names else 0.0,
        "max_outage_s": draw_(st.one_of(st.just(0.0), seconds(1, 3600))),
        "max_recovery_s": draw_(st.one_of(st.just(0.0), seconds(1, 3600))),
        "seed": draw_(st.integers(0, 1 << 40)),
        "wire": draw_(st.booleans()),
        "to": tuple(draw_(st.lists(Kafkas, unique=True, max_size=3))),
        "protocol": draw_(st.sampled_from(["", "0.10.2", "3.9"])),
        "format": draw_(st.sampled_from(["", "0.10.0"])),
        "trace_flushes": draw_(st.booleans()),
        "log_dirs": draw_(st.integers(1, 9)),
        "racks": draw_(st.integers(0, 9)),
        "client": draw_(ClientNames),
        "reader_client": draw_(ClientNames),
    }


@st.composite
def random_plans(draw_: st.DrawFn) -> Plan:
    brokers = draw_(st.integers(1, 9))
    words = st.tuples(
        st.sampled_from(list(faults())), st.sampled_from(["", "@leader", "@2", "@all=3", "=7"])
    ).map("".join)
    return with_settings(
        Plan(
            kafka=draw_(Kafkas),
            brokers=brokers,
            topic=Topic(
                partitions=draw_(st.integers(1, 1000)),
                replication_factor=brokers,
                min_insync_replicas=draw_(st.integers(1, 9)),
                unclean_leader_election=draw_(st.booleans()),
            ),
            workload=draw_(workloads()),
            nemesis=tuple(draw_(st.lists(words, unique=True, max_size=30))),
            duration_s=draw_(seconds(0, 604_800)),
            wire_clients=draw_(st.booleans()),
            tiered=draw_(st.booleans()),
            **draw_(common()),
        )
    )


@st.composite
def story_plans(draw_: st.DrawFn) -> Plan:
    """A story's plan with each setting that options change."""
    story = STORIES[draw_(st.sampled_from(list(STORIES)))]
    plan, workload = story.plan(draw_(Kafkas)), draw_(workloads())
    brokers = draw_(st.integers(story.brokers, 9))
    own = plan.workload
    return with_settings(
        msgspec.structs.replace(
            plan,
            brokers=brokers,
            topic=msgspec.structs.replace(
                plan.topic,
                partitions=draw_(st.integers(plan.topic.partitions, 9)),
                replication_factor=story.replicas(brokers),
                min_insync_replicas=draw_(st.integers(1, 9)),
                unclean_leader_election=draw_(st.booleans()),
            ),
            workload=msgspec.structs.replace(
                workload,
                record_bytes=own.record_bytes,
                joined=own.joined,
                share=own.share or workload.share,
                keys=own.keys,
                idempotence=own.idempotence or workload.idempotence,
                transactions=own.transactions or workload.transactions,
            ),
            wire_clients=plan.wire_clients or draw_(st.booleans()),
            tiered=plan.tiered or draw_(st.booleans()),
            **draw_(common())
            | ({"client": "java:3.9.2"} if story.needs.java else {})
            | ({"controllers": plan.controllers} if story.needs.controllers else {}),
        )
    )


@st.composite
def program_plans(draw_: st.DrawFn) -> Plan:
    """A plan with a program under test, whose words a shell would take apart."""
    words = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1)
    brokers = draw_(st.integers(1, 9))
    topic, out = draw_(
        st.sampled_from(
            [("orders", "payments"), ("in", "out.2"), ("orders", ""), ("in", "payments")]
        )
    )
    without_input = topic == "in" and draw_(st.booleans())
    fed = msgspec.structs.replace(
        PROGRAM_WORKLOAD,
        producers=0 if without_input else 1,
        rate=draw_(st.one_of(st.just(0.0), seconds(0.01, 1e17))),
    )
    kafka = draw_(Kafkas)
    return Plan(
        kafka=kafka,
        driver=draw_(st.sampled_from(["local", "docker"])),
        brokers=brokers,
        topic=Topic(name=topic, partitions=draw_(st.integers(1, 1000)), replication_factor=brokers),
        workload=msgspec.structs.replace(fed, idempotence=release(kafka).idempotence),
        nemesis=tuple(draw_(st.lists(st.sampled_from(list(faults())), unique=True, max_size=3))),
        duration_s=draw_(seconds(0, 604_800)),
        seed=draw_(st.integers(0, 1 << 40)),
        wire_clients=True,
        program=ProgramPlan(
            command=tuple(draw_(st.lists(words, min_size=1, max_size=4))),
            out=out,
            outputs=draw_(st.integers(1, 1000)),
            when=draw_(st.sampled_from(["", "$.amount"])),
            ordered=draw_(st.booleans()),
            feed=draw_(st.sampled_from(["", "/data/my orders.jsonl"])),
            instances=draw_(st.integers(1, 64)),
            guarantee=draw_(st.sampled_from(["at-least-once", "at-most-once", "exactly-once"])),
            match=draw_(st.sampled_from([RECORD_NAME, 'id="(p0-[0-9]+)"', "$.id", "header:a b"])),
            env=tuple(draw_(st.lists(words.map("A={}".format), max_size=2))),
        ),
    )


@given(st.one_of(random_plans(), story_plans(), program_plans()))
@settings(max_examples=400)
def test_a_plans_command_makes_the_same_plan(parsed: Callable[[str], Plan], plan: Plan) -> None:
    assert parsed(plan.command()) == plan


CHANGES: Mapping[str, Callable[[Plan], Plan]] = {
    "a broker's setting": lambda plan: msgspec.structs.replace(
        plan, broker_config=plan.broker_config | {"num.io.threads": "2"}
    ),
    "a topic's setting": lambda plan: msgspec.structs.replace(
        plan, topic=msgspec.structs.replace(plan.topic, config={"segment.bytes": "1000000"})
    ),
    "another topic": lambda plan: msgspec.structs.replace(
        plan, topic=msgspec.structs.replace(plan.topic, name="mine")
    ),
    "fewer replicas": lambda plan: msgspec.structs.replace(
        plan, topic=msgspec.structs.replace(plan.topic, replication_factor=1), brokers=5
    ),
    "transactions without idempotence": lambda plan: msgspec.structs.replace(
        plan,
        workload=msgspec.structs.replace(plan.workload, transactions=True, idempotence=False),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_no_option_says_is_replayed_from_the_plan_itself(
    change: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    plan = CHANGES[change](Plan(kafka="4.4.0", nemesis=("kill",), duration_s=30.0))
    assert plan.command() == "highwater replay plan.json"
    if change.startswith("transactions"):
        return  # and it is refused
    folder = tmp_path_factory.mktemp("run")
    (folder / "plan.json").write_bytes(plan.to_json())
    for store, name in (
        (folder, str(folder / "plan.json")),
        (folder.parent, f"{folder.name}/plan.json"),
    ):
        assert plan_again(name, Store(store), by="broker") == plan


_OTHER: Mapping[type[msgspec.Struct], Mapping[str, Any]] = {
    Plan: {
        "kafka": "3.9.2", "driver": "docker", "story": "loss", "nemesis": ("pause",),
        "budget": {"kill": 1}, "steps": (FaultStep(fault="kill", at_s=0.0, lasts_s=1.0),),
        "schedule": {"name": "s", "model": "m"}, "duration_s": 31.0,
        "broker_config": {"num.io.threads": "2"}, "to": ("3.9.2",), "protocol": "3.9",
        "format": "0.10.0", "client": "java", "reader_client": "java",
        "read_only": "orders",
        "program": ProgramPlan(command=("cat",)),
        "external": External(inventory="i.toml", cluster_id="c", brokers=(1,), commands=()),
    },
    Topic: {
        "name": "mine", "config": {"segment.bytes": "1000000"},
        "like": Likeness(topic="orders", replicas=((1, 2, 3),)),
    },
    ProgramPlan: {
        "command": ("cat", "-n"), "out": "there", "guarantee": "at-most-once", "match": "$.id",
        "env": ("A=b",), "when": "$.amount", "feed": "/data/orders.jsonl",
    },
    Workload: {
        "acks": "1", "compression": "zstd", "isolation": ("read_uncommitted",),
        "group_protocol": "consumer",
    },
}  # fmt: skip
"""For each setting of a plan that is no number or switch, a value that is not the default one."""


def another(of: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> object:
    """A value of a setting that is not its default: a number's successor, the other switch."""
    if field.name in _OTHER[of]:
        return _OTHER[of][field.name]
    return not field.default if isinstance(field.default, bool) else field.default + 1


@pytest.mark.parametrize("of", _OTHER)
def test_every_setting_of_a_plan_is_in_its_command(of: type[msgspec.Struct]) -> None:
    """Or options cannot say it, and the plan's own file is replayed."""
    plan = Plan(kafka="4.4.0", nemesis=("kill",), duration_s=30.0)
    parts: dict[type[msgspec.Struct], str] = {Topic: "topic", Workload: "workload"}
    if of is ProgramPlan:
        plan = requested_app(["cat"], {})
        parts = {ProgramPlan: "program"}
    fields = msgspec.structs.fields(of)
    for field in fields:
        if field.name in {"schema", *parts.values()}:
            continue
        changed = {field.name: another(of, field)}
        if part := parts.get(of):
            changed = {part: msgspec.structs.replace(getattr(plan, part), **changed)}
        assert msgspec.structs.replace(plan, **changed).command() != plan.command(), field.name


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The inventory of a cluster that answers without being there."""
    path = tmp_path / "my own.toml"
    path.write_text(
        'bootstrap = "b1:9092"\nkafka = "4.4.0"\n[commands]\nkill = "true"\nstart = "true"\n'
        + "".join(f"[brokers.{broker}]\n" for broker in (1, 2, 3))
    )
    here = SimpleNamespace(cluster_id="c", code="ef6a77d6", topics={POSITIONS})
    monkeypatch.setattr(cluster, "heal_leftovers", lambda _: None)
    monkeypatch.setattr(identity, "identify", lambda *_: here)
    monkeypatch.setattr("secrets.token_hex", lambda _: "0a1b2c3d")
    return path


@pytest.mark.parametrize(
    "words",
    [
        "run --acks 1 --nemesis kill,pause=2 --for 7s --partitions 2 --min-isr 2",
        "run --idempotence --nemesis none --for 1m --keys 9 --rate max --seed 4",
        "app --nemesis app-kill --for 9s --instances 2 -- sh -c 'a \"b\" $c'",
        "app --in orders --guarantee at-most-once -- cat {in}",
        "app --out payments --rate 5 --nemesis kill -- cat",
        "app --match $.id --when $.amount --outputs 2 --ordered -- cat",
        "app --transactions --env A={bootstrap} -- cat",
    ],
)
def test_a_command_for_a_cluster_of_ones_own_makes_the_same_plan(
    words: str, own: Path, parsed: Callable[[str], Plan]
) -> None:
    command, rest = words.split(" ", 1)
    plan = parsed(f"highwater {command} --inventory '{own}' --confirm ef6a77d6 {rest}")
    assert plan.external is not None
    assert plan.command().startswith(f"highwater {command} ")
    assert parsed(plan.command()) == plan


@given(st.integers(0, 1 << 40), st.integers(0, 10_000))
@settings(max_examples=60)
def test_the_plans_of_a_soak_are_repeated_too(
    parsed: Callable[[str], Plan], seed: int, number: int
) -> None:
    plan = draw(seed, number, kafkas=tuple(CATALOGUE))
    command = plan.command()
    assert (command == "highwater replay plan.json") == (not plan.has_options)
    if plan.has_options:
        assert parsed(command) == plan


@given(
    st.builds(
        Soak,
        seed=st.integers(0, 1 << 40),
        kafkas=st.sampled_from([("4.4.0",), ("2.8.2", "3.9.2"), tuple(CATALOGUE)]),
        controllers=st.sampled_from([1, 3]),
        client=st.sampled_from(["librdkafka", "java"]),
        reader_client=st.sampled_from(["librdkafka", "aiokafka"]),
        each_s=st.one_of(st.none(), seconds(2, 600)),
    ),
    st.integers(0, 1 << 20),
)
@settings(max_examples=60)
def test_a_soaks_command_repeats_one_run(
    parsed: Callable[[str], tuple[Soak, Bounds]], soak: Soak, number: int
) -> None:
    whole, bounds = parsed(soak.command(number))
    assert whole == soak
    assert (bounds.first, bounds.runs) == (number, 1)


def _night_cells() -> list[NightlyCell]:
    cells = [msgspec.structs.replace(cell, kafka=newest(), seed=7) for cell in night_settings()]
    plain = NightlyCell(kafka=newest(), nemesis="kill,pause", acks="1", seed=2)
    return [
        *cells,
        msgspec.structs.replace(plain, delivery="idempotent", driver="docker"),
        msgspec.structs.replace(plain, delivery="transactional", reader_client="aiokafka"),
        msgspec.structs.replace(plain, group_protocol="classic", unclean=True),
        msgspec.structs.replace(plain, group_protocol="consumer", share=3, client="java:3.9.2"),
        NightlyCell(kafka=newest(), story="loss", delivery="idempotent"),
    ]


def test_a_nights_command_makes_the_plan_of_its_cell(parsed: Callable[[str], Plan]) -> None:
    for cell in _night_cells():
        assert parsed(cell.command()) == plan_of(cell, duration_s=float(NEMESIS_S)), cell


def test_no_two_settings_of_a_night_are_one_and_rows_find_their_cells() -> None:
    cells = _night_cells()
    assert len({cell.key for cell in cells}) == len(cells)
    for cell in cells:
        ran = plan_of(cell, duration_s=float(NEMESIS_S))
        again = NightlyCell(**cast("dict[str, Any]", NightlyCell.fields_of(ran)))
        assert again.identity == cell.identity
