"""The pytest plugin in projects of its own, with a laboratory that starts no broker."""

import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest

pytest_plugins = ["pytester"]

LABORATORY = '''
from pathlib import Path
from types import SimpleNamespace

import pytest
from highwater.checkers.model.report_types import (
    ExplanationLink, ModelFinding, PartitionOutcome, Reconciliation,
)
from highwater.harness.base.errors import HarnessError
from highwater.harness.runs.verdict import Anomaly, Ledger, Verdict

SENTENCE = "m3 was acknowledged at offset 3, and broker 3 cut it off."
WORDS = {"loss": "invalid", "divergence": "unknown"}


def said(kafka):
    """A status a release, and nothing on the others."""
    status = {"0.10.2.2": "as-predicted", "2.8.2": "unexplained", "4.3.1": "not-reproduced",
              "0.11.0.3": "unknown"}.get(kafka)
    if status is None:
        return None
    link = ExplanationLink(rule="epochs", says="Broker 3 cut m3, which no rule allows.")
    found = ModelFinding(kind="lost-write", topic="events", partition=0, offset=3, record="m3",
                    verdict="unexplained", because=(link,))
    m3 = PartitionOutcome(lost=("m3",))
    return Reconciliation(
        run="r", kafka=kafka, kind="scripted", status=status, predicted=m3, observed=m3,
        reasons=("No events.",), findings=(found,) * (status == "unexplained"),
        absent=("m3 should be lost.",) * (status == "not-reproduced"))


class Laboratory:
    """Loses m3 in the story of that name, cannot judge the other, and has no Java for faults."""

    def perform(self, plan):
        if plan.nemesis:
            raise HarnessError("no Java is here", hint="Install one.")
        word = WORDS.get(plan.story, "valid")
        lost = int(word == "invalid")
        anomaly = Anomaly(kind="lost-write", topic="events", partition=0, offset=3, value="m3",
                          sentence=SENTENCE, breaks=True)
        verdict = Verdict(
            run="r", kafka=plan.kafka, acks=plan.workload.acks, verdict=word, promise="",
            reasons=("The window was missed.",) if word == "unknown" else (),
            headline=f"Kafka {plan.kafka} lost {lost} of 4 acknowledged records",
            ledger=Ledger(sent=4, acknowledged=4, failed=0, unknown=0, read=4 - lost, lost=lost,
                          unseen=0),
            counts={"doubled-input": 1} if plan.program else {}, anomalies=(anomaly,) * lost,
            checkers={})
        return SimpleNamespace(run=SimpleNamespace(plan=lambda: plan), verdict=verdict,
                               model=said(plan.kafka),
                               report=Path.cwd() / "store" / "r" / "report.html")


@pytest.fixture(scope="session")
def _highwater_laboratory():
    return Laboratory
'''


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project of a user, whose runs need no broker."""
    pytester.makeconftest(LABORATORY)
    pytester.makeini("[pytest]\naddopts = --strict-markers -p no:cacheprovider\n")
    return pytester


def ids(pytester: pytest.Pytester, *words: str) -> list[str]:
    """The tests that pytest would run, in its order."""
    lines = pytester.runpytest("--collect-only", "-q", *words).outlines
    return [line.rpartition("::")[2] for line in lines if "::" in line]


def test_the_plugin_loads_nothing_but_pytest_and_the_standard_library() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import highwater.pytest_plugin;"
        "print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if not _is_standard(name)}
    assert loaded == {"highwater", "highwater.pytest_plugin"}


def _is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def test_it_does_nothing_in_a_project_that_does_not_use_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(params=["mine"])
        def kafka_cluster(request):
            return request.param

        @pytest.mark.kafka("a topic", partitions=3)
        def test_b(kafka_cluster): assert kafka_cluster == "mine"

        @pytest.mark.kafka
        def test_a(): pass
        """
    )
    assert ids(pytester) == ["test_b[mine]", "test_a"]
    done = pytester.runpytest("-v")
    done.assert_outcomes(passed=2)
    assert "ighwater: " not in done.stdout.str().replace("highwater-0", "")


def test_a_marker_names_releases_and_settings(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.kafka("0.10.2.2", "4.3.1", unclean=True)

        @pytest.mark.kafka(acks=[1, "all"], min_isr=[1, 2], unclean=[False])
        def test_both(kafka_run, highwater_case):
            plan = kafka_run.plan(nemesis=["kill", "pause"], duration="20s", seed=7)
            assert plan.kafka == highwater_case.kafka
            assert plan.workload.acks == highwater_case.acks
            assert plan.topic.min_insync_replicas == highwater_case.min_isr
            assert not plan.topic.unclean_leader_election
            assert (plan.nemesis, plan.duration_s, plan.seed) == (("kill", "pause"), 20.0, 7)
            again = kafka_run.plan(story="loss", acks="0", min_isr=1, unclean=True)
            assert (again.story, again.workload.acks) == ("loss", "0")
            assert again.topic.unclean_leader_election
            assert again.broker_config
            wired = kafka_run.plan(nemesis="cut-client", wire_clients=True)
            assert (wired.wire_clients, plan.wire_clients) == (True, False)
            java = kafka_run.plan(nemesis="kill", client="java:3.9.2")
            assert (java.client, plan.client) == ("java:3.9.2", "librdkafka")
            assert kafka_run.plan(story="wrong-topic").client == "java"

        @pytest.mark.kafka("4.3.1")
        def test_one(kafka_run, highwater_case):
            assert highwater_case.unclean and highwater_case.release.coordination == "kraft"
        """
    )
    assert ids(project)[:5] == [
        "test_both[0.10.2.2-acks=1-min_isr=1-clean]",
        "test_both[0.10.2.2-acks=1-min_isr=2-clean]",
        "test_both[0.10.2.2-acks=all-min_isr=1-clean]",
        "test_both[0.10.2.2-acks=all-min_isr=2-clean]",
        "test_both[4.3.1-acks=1-min_isr=1-clean]",
    ]
    assert ids(project)[-1] == "test_one[4.3.1-unclean]"
    project.runpytest().assert_outcomes(passed=9)


def test_a_program_runs_for_every_release(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from highwater import App, UsageError

        @pytest.mark.kafka("0.10.2.2", "4.4.0", acks=["1", "all"])
        def test_mine(kafka_app, highwater_case):
            result = kafka_app(
                "python 'my service.py'", topic="orders", out="paid", instances=3, nemesis="none"
            )
            plan = result.plan
            assert result.inputs["once"] == 3
            assert result.inputs["doubled-input"] == 1
            assert plan.program.command == ("python", "my service.py")
            assert (plan.program.instances, plan.program.out) == (3, "paid")
            assert (plan.kafka, plan.workload.acks) == (highwater_case.kafka, highwater_case.acks)
            new = (plan.kafka, plan.workload.acks) == ("4.4.0", "all")
            assert plan.workload.idempotence == new

        def test_app():
            app = App(["./service"], topic="orders", kafka="4.4.0", guarantee="exactly-once")
            assert app.plan.topic.name == "orders"
            assert "--guarantee exactly-once" in repr(app)
            with pytest.raises(UsageError, match="no argument 'instance'"):
                App("./service", instance=3)
        """
    )
    done = project.runpytest("--junitxml=out.xml")
    done.assert_outcomes(passed=5)
    done.stdout.fnmatch_lines(["4.4.0 *no faults my service.py: 1 doubled-input*"])
    properties = ET.parse(project.path / "out.xml").iter("property")  # noqa: S314 - ours
    counted = [it.get("value") for it in properties if it.get("name") == "inputs-doubled-input"]
    assert counted == ["1"] * 4


def test_the_command_line_holds_every_test_to_its_releases(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.kafka("0.10.2.2", "4.3.1")
        def test_named(kafka_run): pass

        def test_unnamed(kafka_run): pass
        """
    )
    assert ids(project, "--highwater-kafka=4.3.1, 0.11.0.3") == [
        "test_named[0.10.2.2]",
        "test_unnamed[0.11.0.3]",
        "test_named[4.3.1]",
        "test_unnamed[4.3.1]",
    ]
    done = project.runpytest("--highwater-kafka=4.3.1,0.11.0.3")
    done.assert_outcomes(passed=3, skipped=1)
    done.stdout.fnmatch_lines(
        [
            "highwater: Kafka 4.3.1, 0.11.0.3 (local), runs in *store",
            "skipped 1 test: --highwater-kafka=4.3.1,0.11.0.3 leaves Kafka 0.10.2.2 out",
        ]
    )


def test_tests_without_brokers_come_first_and_those_of_a_release_together(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("word", ["x", "y"])
        def test_c(kafka_run, word): pass

        def test_b(): pass

        def test_a(kafka_run): pass
        """
    )
    assert ids(project, "--highwater-kafka=4.3.1,0.10.2.2") == [
        "test_b",
        "test_c[0.10.2.2-x]",
        "test_c[0.10.2.2-y]",
        "test_a[0.10.2.2]",
        "test_c[4.3.1-x]",
        "test_c[4.3.1-y]",
        "test_a[4.3.1]",
    ]


def test_the_ini_file_chooses_for_tests_that_name_no_release(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nhighwater_kafka = 0.11.0.3\nhighwater_store = runs\n")
    project.makepyfile(
        """
        import pytest

        def test_unnamed(kafka_run): pass

        @pytest.mark.kafka("4.3.1")
        def test_named(kafka_run, pytestconfig): pass
        """
    )
    assert ids(project) == ["test_unnamed[0.11.0.3]", "test_named[4.3.1]"]
    assert ids(project, "--highwater-kafka=0.10.2.2") == [
        "test_unnamed[0.10.2.2]",
        "test_named[4.3.1]",
    ]


def test_a_release_that_the_driver_cannot_run_is_skipped_with_the_reason(
    project: pytest.Pytester,
) -> None:
    project.makepyfile("def test_old(kafka_run): pass")
    done = project.runpytest("--highwater-kafka=0.9.0.1", "--highwater-driver=docker")
    done.assert_outcomes(skipped=1)
    done.stdout.fnmatch_lines(["skipped 1 test: Kafka 0.9.0.1 runs on local only, not on docker"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--highwater-kafka=0.10.2.1", "'0.10.2.1' is not in the catalogue*Did you mean 0.10.2.2"),
        ("--highwater-kafka=,", "no Kafka release is named*There are: all, sample, *4.3.1"),
        ("--highwater-driver=dokcer", "there is no cluster driver 'dokcer'*Did you mean docker"),
    ],
)
def test_an_unknown_name_is_refused_before_anything_is_collected(
    words: str, says: str, project: pytest.Pytester
) -> None:
    project.makepyfile("raise SystemExit('collected')")
    done = project.runpytest(words)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    first, _, second = says.partition("*")
    done.stderr.fnmatch_lines([f"*{first}*", f"*{second}*"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("marker", "says"),
    [
        ('kafka("4.3.0")', "Kafka '4.3.0' is not in the catalogue"),
        ("kafka(acks=2)", "the marker kafka has a wrong value: acks=2"),
        ("kafka(min_isr=True)", "the marker kafka has a wrong value: min_isr=True"),
        ("kafka(unclean=[0])", "the marker kafka has a wrong value: unclean=*0*"),
        ("kafka(ack='all')", "the marker kafka has no argument 'ack'"),
    ],
)
def test_a_marker_that_asks_for_what_there_is_not_is_an_error_without_traceback(
    marker: str, says: str, project: pytest.Pytester
) -> None:
    project.makepyfile(f"import pytest\n@pytest.mark.{marker}\ndef test_it(kafka_run): pass")
    done = project.runpytest()
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines([f"*::test_it: {says}"])
    assert "Traceback" not in done.stdout.str()


def test_a_broken_promise_is_a_failure_that_says_everything(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        def test_loss(kafka_run):
            kafka_run(story="loss")
        """
    )
    done = project.runpytest("--highwater-kafka=0.10.2.2", "--junitxml=junit.xml")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            ">       kafka_run(story=*loss*",
            "E       highwater.testing.results.PromiseBroken: Kafka 0.10.2.2 lost 1 of 4 *",
            "E       m3 was acknowledged at offset 3, and broker 3 cut it off.",
            "E       model: as predicted. By the rules of Kafka 0.10.2.2, m3 is lost *",
            "E       report: */store/r/report.html",
            "E       repeat: highwater run --kafka 0.10.2.2 --acks all --min-isr 1 --story loss *",
            "test_*.py:2: PromiseBroken",
            "* Highwater: what was lost *",
            "kafka *what * lost / acked *verdict *model *report",
            "0.10.2.2 * loss acks=all * 1 / 4 * invalid * as-predicted * store/r/report.html",
        ],
        consecutive=False,
    )
    case = ET.parse(project.path / "junit.xml").getroot().find(".//testcase")  # noqa: S314 - ours
    assert case is not None
    assert case.find("failure") is not None
    properties = {one.get("name"): one.get("value") for one in case.iter("property")}
    report = str(project.path / "store" / "r" / "report.html")
    assert properties == {
        "kafka": "0.10.2.2",
        "driver": "local",
        "acks": "all",
        "verdict": "invalid",
        "lost": "1",
        "acknowledged": "4",
        "model": "as-predicted",
        "report": report,
    }


def test_what_the_model_cannot_explain_fails_a_test_that_asks(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        def test_it(kafka_run):
            result = kafka_run(story="loss", check=False)
            result.assert_explained()
        """
    )
    releases = "0.10.2.2,0.11.0.3,1.1.1,2.8.2,4.3.1"
    done = project.runpytest(f"--highwater-kafka={releases}", "-rA")
    done.assert_outcomes(passed=1, failed=2, errors=2)
    done.stdout.fnmatch_lines(
        [
            "E *CannotJudge: the model cannot explain the run: No events.",
            "E *CannotJudge: the model cannot explain the run: it has no explanation by the model.",
            "E *Unexplained: 1 of 1 finding cannot follow from the rules of Kafka 2.8.2.",
            "E       unexplained lost-write m3 at events-0, offset 3",
            "E         *epochs* Broker 3 cut m3, which no rule allows.",
            "E *Unexplained: The run did not go as planned, and proves nothing: No events.",
            "E       m3 should be lost.",
            "1.1.1 * invalid  - * store/r/report.html",
            "PASSED *test_it*0.10.2.2*",
        ]
    )


def test_an_unknown_verdict_and_a_harness_problem_are_errors_even_where_failures_are_expected(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        """
        import pytest
        from highwater import PromiseBroken

        def test_unknown(kafka_run):
            kafka_run(story="divergence")

        def test_unknown_unchecked(kafka_run):
            kafka_run(story="divergence", check=False)

        @pytest.mark.xfail
        def test_unknown_expected(kafka_run):
            with pytest.raises(PromiseBroken):
                kafka_run(story="divergence")

        def test_harness(kafka_run):
            kafka_run(nemesis="kill")

        def test_wrong_call(kafka_run):
            kafka_run()
        """
    )
    done = project.runpytest("--highwater-kafka=4.3.1", "--junitxml=junit.xml")
    done.assert_outcomes(errors=5)
    done.stdout.fnmatch_lines(
        [
            "E *CannotJudge: the run could not be judged: The window was missed.",
            "E *report: *",
            "E *HarnessError: no Java is here",
            "E *Install one.",
            "E *UsageError: kafka_run needs a story or a nemesis",
            "4.3.1 * divergence * 0 / 4 * unknown *",
        ]
    )
    root = ET.parse(project.path / "junit.xml").getroot()  # noqa: S314 - ours
    assert (len(list(root.iter("error"))), len(list(root.iter("failure")))) == (5, 0)


def test_a_result_can_be_examined(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from highwater import PromiseBroken

        def test_it(kafka_run):
            result = kafka_run(story="loss", check=False)
            assert (result.verdict, result.lost, result.acknowledged) == ("invalid", 1, 4)
            assert [one.value for one in result.anomalies] == ["m3"]
            assert result.report.name == "report.html"
            result.assert_loses("m3")
            with pytest.raises(AssertionError, match="m4 should be lost, and m3 of 4"):
                result.assert_loses("m4")
            with pytest.raises(AssertionError, match="nothing should be lost"):
                result.assert_loses()
            with pytest.raises(PromiseBroken, match="cut it off") as broken:
                result.assert_as_promised()
            assert broken.value.result is result

        @pytest.mark.xfail(raises=PromiseBroken)
        def test_known(kafka_run):
            kafka_run(story="loss")

        def test_kept(kafka_run):
            plan = kafka_run.plan(nemesis="none")
            kafka_run(plan).assert_as_promised()
        """
    )
    project.runpytest("--highwater-kafka=0.10.2.2").assert_outcomes(passed=2, xfailed=1)


def test_a_plan_for_another_release_is_refused(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from highwater.harness.base.errors import UsageError
        from highwater.harness.runs.plan import Plan

        def test_it(kafka_run):
            with pytest.raises(UsageError, match="this test runs for Kafka 4.3.1 on local"):
                kafka_run(Plan(kafka="0.10.2.2"))
            with pytest.raises(UsageError, match="a plan or seed"):
                kafka_run(Plan(kafka="4.3.1"), seed=3)

        def test_late(request):
            request.getfixturevalue("kafka_run")
        """
    )
    done = project.runpytest("--highwater-kafka=4.3.1")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["E *are not available by getfixturevalue"])


def test_a_misspelt_keyword_is_an_error_that_names_the_nearest(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest

        @pytest.mark.kafka("4.3.1")
        @pytest.mark.parametrize("word", ["duratoin", "ack", "min_irs"])
        def test_it(kafka_run, word):
            kafka_run(story="divergence", **{word: 1})
    """)
    done = project.runpytest_subprocess()
    done.assert_outcomes(errors=3)
    done.stdout.fnmatch_lines_random(
        [
            "*kafka_run has no argument 'duratoin'*",
            "*Did you mean duration*",
            "*Did you mean acks*",
            "*Did you mean min_isr*",
        ]
    )


def test_what_takes_long_is_said_at_once_and_not_captured(project: pytest.Pytester) -> None:
    project.makepyfile("""
        from types import SimpleNamespace

        import pytest

        from highwater.pytest_plugin import _say
        from highwater.testing.session import Laboratory

        def test_it(pytestconfig, tmp_path, monkeypatch):
            laboratory = Laboratory(tmp_path, tmp_path, lambda words: _say(pytestconfig, words))
            monkeypatch.setattr(laboratory, "_boot", lambda _: SimpleNamespace(close=lambda: None))
            with laboratory:
                laboratory.cluster(SimpleNamespace(kafka="4.3.1", driver="local"))
    """)
    done = project.runpytest_subprocess()
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["highwater: 3 brokers of Kafka 4.3.1 start*"])
