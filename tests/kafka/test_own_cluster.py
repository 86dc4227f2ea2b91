"""Campaign on clusters made by hand: every loss is explained, and all is left as it was.

``HIGHWATER_OWN_RUNS`` is how many runs of each kind there are on each release, and
``HIGHWATER_KILL_POINTS`` at how many moments a run is interrupted, and killed.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import psutil
import pytest

from highwater.checkers.model.report_types import Reconciliation
from highwater.clusters.external.journal import journal_folder, read
from highwater.harness.releases.catalogue import MODERN
from highwater.reports.model_text import sentence
from tests.kafka.own_cluster import PAIRS, POWER_CUT, OwnCluster, differences, own_cluster
from tests.support.commands import finish, start

RUNS: Final = int(os.environ.get("HIGHWATER_OWN_RUNS", "1"))
POINTS: Final = int(os.environ.get("HIGHWATER_KILL_POINTS", "0"))
KAFKAS: Final = (MODERN, "3.9.2", "3.9.2-zk")
FAULTS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = MappingProxyType(
    {
        "acks-1": ("run --nemesis kill@leader,pause@leader --acks 1 --rate 600 --for 30s", {}),
        "power": ("run --nemesis kill@all,kill@isr --acks all --for 15s", POWER_CUT),
        "unclean": (
            f"run --nemesis kill@isr,kill@leader --unclean --overlap 2 --like {PAIRS} --for 40s",
            {},
        ),
        "rolling": ("rolling --for 15s", {}),
    }
)
USES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "groups": "run --nemesis kill,pause --subscribe 3 --churn 6s --keys 20 --for 30s",
        "loops": "run --nemesis kill,pause --transactions --transform --for 30s",
        "rolling": "run --story rolling-restart",
        "acks-1": "run --story leader-kill --acks 1",
        "recreated": "run --story recreated-calmly",
    }
)
"""What writes to Kafka's own topics, and stories."""

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.nightly,
    pytest.mark.timeout(120 + 300 * max(RUNS, 2 * POINTS)),
]


@pytest.fixture(scope="module", params=KAFKAS)
def own(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OwnCluster]:
    directory = tmp_path_factory.mktemp("own") / "cluster"
    with own_cluster(request.param, directory, group=request.param != MODERN) as made:
        yield made


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def begin(own: OwnCluster, fault: str, store: Path, seed: int) -> "subprocess.Popen[str]":
    """Type what a user would."""
    words, commands = FAULTS[fault] if fault in FAULTS else (USES[fault], {})
    where = ("--inventory", own.inventory(commands), "--confirm", own.code, "--store", store)
    seeded = ("--seed", str(seed)) if words.startswith("run") else ()
    return start(*words.split(), *where, *seeded, "--json")


def unexplained(model: Reconciliation) -> list[str]:
    """Return what the model holds against Kafka, and what it does not know without a reason."""
    wrong = [
        f"{found.kind} {found.record}: {found.because[-1].says}"
        for found in model.findings
        if found.verdict == "unexplained"
        or (found.verdict == "unknown" and "was not observed" not in found.because[-1].says)
    ]
    said = sentence(model)
    return wrong + [said] * ("cannot follow" in said)


def outcome(own: OwnCluster, fault: str, store: Path, number: int) -> dict[str, object]:
    """Perform one run; return what it came to, with all that is wrong with it."""
    before = own.facts()
    code, out, err = finish(begin(own, fault, store, number))
    row: dict[str, object] = {"run": number, "code": code, "said": err.splitlines()}
    row["changed"] = differences(before, own.facts())
    if not out:
        return row | {"wrong": ["it ended early"]}
    model = Reconciliation.from_json((store / "latest/analysis/model.json").read_bytes())
    verdicts = Counter(dict.fromkeys(("explained", "unknown", "unexplained"), 0))
    for found in model.findings:
        verdicts[found.verdict] += found.count
    judged = json.loads(out)
    row |= {key: judged[key] for key in ("verdict", "acknowledged", "lost")}
    return row | {"model": model.status, **verdicts, "wrong": unexplained(model)}


def note(path: Path, row: dict[str, object]) -> None:
    """Add a line to a campaign's rows, which stay beside its runs."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


@pytest.mark.parametrize("fault", FAULTS)
def test_losses_are_explained_and_the_cluster_is_as_before(
    own: OwnCluster, tmp_path: Path, fault: str
) -> None:
    wrong: list[object] = []
    for number in range(RUNS):
        row = outcome(own, fault, tmp_path / str(number), number)
        note(tmp_path / "rows.jsonl", {"kafka": own.release.name, "fault": fault, **row})
        wrong += [row[key] for key in ("changed", "wrong") if row[key]]
    assert not wrong


@pytest.mark.parametrize("use", USES)
def test_groups_and_topics_of_others_are_as_before(
    own: OwnCluster, tmp_path: Path, use: str
) -> None:
    if use == "recreated" and own.release.coordination != "kraft":
        pytest.skip("topics are deleted by requests on KRaft only")
    before = own.facts()
    code, out, err = finish(begin(own, use, tmp_path, 0))
    after = own.facts()
    assert (code, json.loads(out)["verdict"]) == (0, "valid"), out + err
    assert differences(before["groups"], after["groups"]) == []
    theirs = [name for name in before["topics"] if not name.startswith("__")]
    assert theirs == [name for name in after["topics"] if not name.startswith("__")]
    for name in theirs:
        assert differences(before["topics"][name], after["topics"][name]) == []


def end(process: "subprocess.Popen[str]", how: str, moment_s: float) -> tuple[int, list[str]]:
    """End a run at a moment, and wait for whoever heals; return its exit code and its errors."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(moment_s)  # the moment is the experiment
    guards = psutil.Process(process.pid).children() if process.poll() is None else []
    process.send_signal(getattr(signal, how))
    code, _, err = finish(process)
    psutil.wait_procs(guards, timeout=120)
    return code, err.splitlines()


@pytest.mark.skipif(not POINTS, reason="HIGHWATER_KILL_POINTS says at how many moments")
@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_whenever_a_run_is_ended_the_cluster_is_as_before(
    own: OwnCluster, tmp_path: Path, how: str
) -> None:
    dice = random.Random(f"{how} {POINTS}")  # noqa: S311 - a repeatable choice of moments
    wrong: list[object] = []
    for number in range(POINTS):
        before = own.facts()
        moment_s = dice.uniform(0.5, 30.0)
        process = begin(own, "acks-1", tmp_path / str(number), number)
        code, said = end(process, how, moment_s)
        if how == "SIGKILL":
            healed = finish(start("heal", "--inventory", own.directory / "staging.toml"))
            assert healed[0] == 0, healed
        row = {"kafka": own.release.name, "how": how, "after_s": moment_s, "code": code}
        row |= {"said": said, "changed": differences(before, own.facts())}
        note(tmp_path / "rows.jsonl", row)
        wrong += [row["changed"]] * bool(row["changed"])
        assert read(journal_folder(own.cluster_id)) is None, row
    assert not wrong
