"""A counterexample as a page and a drawing: lanes, steps, what is lost, what brokers made of it."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import typer.main
from msgspec.structs import replace

from highwater.checkers.model.search.kafka_model import Counterexample
from highwater.cli.model import app as model_app
from highwater.reports.drawings.counterexample_svg import WIDE, whole
from highwater.reports.drawings.model_frames import Harm, harm
from highwater.reports.html import drawing_css
from highwater.reports.pages.counterexample import conclusion, headline, write
from tests.browser import predicted
from tests.browser.lineage import forked, lost
from tests.browser.samples import SAMPLES
from tests.support.html_pages import words


def test_a_page_tells_what_breaks_and_every_step(tmp_path: Path) -> None:
    found = lost()
    shown = words(write(found, tmp_path / "lost.html"))
    assert headline(found) == "Kafka 0.10.2.2 can lose an acknowledged record, in 9 steps."
    for wanted in (headline(found), found.says, conclusion(found), found.command):
        assert wanted in shown
    for number, step in enumerate(found.steps, start=1):
        assert f"Step {number}, {step.says}: the replicas around offset 0 A (" in shown
        assert f"{number}. {step.says}: A (" in whole(found, "")
    assert "Failures 0" in shown
    assert "Moves 2" in shown


def test_what_is_lost_and_what_differs_is_marked() -> None:
    assert harm(lost()) == Harm(records=frozenset({"m1"}))
    assert conclusion(lost()) == (
        "In the end m1 was acknowledged, but C, which must lead, lacks it."
    )
    assert harm(forked()) == Harm(records=frozenset({"m1"}), instead=frozenset({"m2"}))
    assert conclusion(forked()) == "In the end one replica has m1 where another has m2."
    drawn = whole(forked(), "")
    assert drawn.count('class="cell other divergence"') == 1
    assert 'class="cell gone"' in drawn


def test_a_means_of_the_protocol_that_breaks_has_no_record_to_mark() -> None:
    found = replace(lost(), invariant="leader-in-isr", steps=lost().steps[:1])
    assert not harm(found).records
    assert "can break leader-in-isr" in headline(found)
    assert found.says in conclusion(found)


@pytest.mark.parametrize("make", [lost, forked])
def test_every_step_is_a_column_and_every_replica_a_lane(
    make: Callable[[], Counterexample],
) -> None:
    found = make()
    drawn = whole(found, "")
    assert drawn.count('class="step-number"') == len(found.steps)
    assert drawn.count("step-n last") == 1
    assert len(re.findall(r'class="lane( down)?"', drawn)) == 3 * len(found.steps)
    hws = [replica.hw for step in found.steps for replica in step.after.replicas]
    assert sorted(map(int, re.findall(r">HW (?:= LEO )?(\d+)[<,]", drawn))) == sorted(hws)


def test_no_drawing_is_wider_than_the_page() -> None:
    assert float(re.findall(r'width="([\d.]+)"', whole(forked(), ""))[0]) <= WIDE + 50


def test_the_drawing_alone_is_a_file_that_needs_nothing_else(tmp_path: Path) -> None:
    path = write(lost(), tmp_path / "lost.svg")
    root = ET.fromstring(path.read_text("utf-8"))  # noqa: S314 - we have just written it
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme:dark" in drawing_css()
    assert drawing_css() in "".join(root.itertext())
    assert "http" not in path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert str(whole(lost(), drawing_css())) == path.read_text("utf-8")


def test_what_real_brokers_made_of_it_stands_beside_it(tmp_path: Path) -> None:
    old, new, missed = SAMPLES["loss"](), SAMPLES["valid"](), SAMPLES["cut-short"]()
    missed.model = replace(predicted.not_reproduced("r"), kafka="2.8.2")
    runs = [one.write(tmp_path / "store") for one in (old, new, missed)]
    page = write(lost(), tmp_path / "lost.html", runs)
    shown = words(page)
    assert "Kafka 0.10.2.2 as predicted" in shown
    assert "Kafka 4.3.1 as predicted report By the rules of Kafka 4.3.1, nothing is lost" in shown
    assert "Kafka 2.8.2 not reproduced" in shown
    assert "The run was ended early while it was running." in shown
    html = page.read_text("utf-8")
    assert (
        html.count("<b>The model&#39;s logs</b>") == html.count("<b>The brokers&#39; logs</b>") == 3
    )
    for run in runs:
        assert f'href="store/{run.name}/report.html"' in html
        assert (tmp_path / "store" / run.name).is_dir()


def test_the_command_on_the_page_is_one_that_there_is() -> None:
    scope = dataclasses.replace(forked().scope, unclean=True, by="round", stops=False)
    found = replace(forked(), switched={"epochs": True}, scope=scope)
    program, group, name, *said = found.command.split()
    assert (program, group, name) == ("highwater", "model", "explore")
    commands = typer.main.get_command(model_app).commands  # type: ignore[attr-defined]
    context = commands[name].make_context(name, said)
    assert (context.params["kafka"], context.params["unclean"]) == ("0.10.2.2", True)
    assert context.params["rule"] == ["epochs=on"]
    assert (context.params["by"], context.params["stops"]) == ("round", False)
