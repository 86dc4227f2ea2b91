"""A client driver that breaks its specification in one way, which its argument names."""

import itertools
import json
import os
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "drivers" / "librdkafka.py"
LATER = 7
FAULT = sys.argv[1]
Answer = dict[str, Any]
say = print
counter = itertools.count()


def without(answer: Answer, name: str) -> list[Answer]:
    return [{each: word for each, word in answer.items() if each != name}]


def with_config(asked: Answer, name: str, value: object) -> Answer:
    return {**asked, "config": {**asked["config"], name: value}} if "config" in asked else asked


def with_op(asked: Answer, op: str, instead: str) -> Answer:
    return {**asked, "op": instead} if asked.get("op") == op else asked


def unknown(member: str) -> str:
    """Return a member's metadata without the generation and the member's name."""
    group, _, _ = member[11:].partition("\0")
    return f"{member[:7]}{chr(255) * 4}{group}\0\0\1"


OF_ANSWERS: dict[str, Callable[[Answer], list[Answer]]] = {
    "no-library": lambda answer: without(answer, "library"),
    "no-numbers": lambda answer: without(answer, "code"),
    "ok-for-errors": lambda answer: without(answer, "error"),
    "nowhere": lambda answer: without(answer, "error"),
    "ok-when-fenced": lambda answer: without(answer, "error"),
    "no-events": lambda answer: [] if "event" in answer else [answer],
    "other-offsets": lambda answer: [
        {**answer, "offsets": {n: offset - 1 for n, offset in answer.get("offsets", {}).items()}}
    ],
    "unknown-member": lambda answer: [
        {**answer, "member": unknown(answer["member"])} if "member" in answer else answer
    ],
    "in-range": lambda answer: without(answer, "out_of_range"),
    "skips": lambda answer: (
        [{**answer, "records": answer["records"][1:]}]
        if len(answer.get("records", ())) > 1
        else [answer]
    ),
    "reads-twice": lambda answer: [{**answer, "records": answer.get("records", []) * 2}],
    "never-sent": lambda answer: [{**answer, "queued": "error" not in answer}],
}
OF_REQUESTS: dict[str, Callable[[Answer], Answer]] = {
    "no-idempotence": lambda asked: with_config(asked, "enable.idempotence", False),
    "uncommitted": lambda asked: with_config(asked, "isolation.level", "read_uncommitted"),
    "commit-for-abort": lambda asked: with_op(asked, "abort", "commit"),
    "abort-for-commit": lambda asked: with_op(asked, "commit", "abort"),
    "unstable": lambda asked: with_config(asked, "isolation.level", "read_uncommitted"),
    "offsets-in-spite": lambda asked: with_op(asked, "abort", "commit"),
    "no-offsets": lambda asked: with_op(asked, "offsets", "reach"),
    "seek-to-the-beginning": lambda asked: (
        {**asked, "offsets": dict.fromkeys(asked["offsets"], 0)} if "offsets" in asked else asked
    ),
}
OF_SENDS: dict[str, Callable[[Answer], list[Answer]]] = {
    "ok-without-offset": lambda answer: without(answer, "offset"),
    "wrong-offset": lambda answer: [{**answer, "offset": answer["offset"] + 1}],
    "made-up-offset": lambda answer: [{**answer, "offset": answer["offset"] or 0}],
    "swapped-answers": lambda answer: [{**answer, "id": answer["id"] ^ 1}],
    "two-answers": lambda answer: [answer, answer],
}
OF_ONE: dict[str, Callable[[Answer], list[Answer]]] = {
    "lost-answer": lambda _: [],
    "garbage": lambda _: [{"hello": "world"}],
    "crash": lambda _: os._exit(3),
}


def spoilt(line: str, *, flush: bool) -> None:
    """Write what the broken driver writes instead of an answer of the example."""
    answer = json.loads(line)
    change = OF_ANSWERS.get(FAULT)
    if "offset" in answer:
        change = change or OF_SENDS.get(FAULT)
    if next(counter) == LATER:
        change = change or OF_ONE.get(FAULT)
    for each in [answer] if change is None else change(answer):
        say(json.dumps(each), flush=flush)


if FAULT in OF_REQUESTS:
    loads = json.loads
    json.loads = lambda line: OF_REQUESTS[FAULT](loads(line))  # type: ignore[assignment, misc]
if FAULT == "silent":
    time.sleep(3600)
try:
    runpy.run_path(str(EXAMPLE), init_globals={"print": spoilt}, run_name="__main__")
finally:
    if FAULT == "no-end":
        time.sleep(3600)
