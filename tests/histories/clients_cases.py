"""The golden histories of the clients' view: for each kind present, absent, and a near miss.

What else there may be is held by plain loops over rows (tests/support/plain_records.py and
plain_steps.py), and Jepsen's own cases are in tests/unit/fixtures/jepsen.
"""

from typing import Final

from tests.histories.clients import Case

FIRST = "p1: send k0 a@0 \n p1: send k0 b@1 \n p1: send k0 c@2 \n p1: send k0 d@3 \n"
"""Four records, acknowledged one after the other at 0 to 3."""

CASES: Final = (
    Case(
        "calm",
        FIRST + "c1: poll k0 a@0 b@1 \n c1: poll k0 c@2 d@3",
    ),
    # inconsistent-offsets
    Case(
        "inconsistent-offsets",
        """p1: send k0 a@0
           p2: send k0 b@0
           c1: poll k0 b@0""",
        ("inconsistent-offsets k0 @0: p1 a@0, p2 b@0", "lost-write k0 a@0: p1 a@0, c1 b@0"),
    ),
    Case(
        "inconsistent-offsets, absent: another partition",
        "p1: send k0 a@0 \n p2: send k1 b@0 \n c1: poll k0 a@0  k1 b@0",
    ),
    Case(
        "inconsistent-offsets, near miss: it is not known whether a was written",
        "p1: send k0 a@0 k1 a  info \n p2: send k0 b@0 \n c1: poll k0 b@0",
    ),
    # duplicate
    Case(
        "duplicate",
        "p1: send k0 a@1 \n p2: send k0 b  info \n c1: poll k0 b@2 a@3",
        ("duplicate k0 a@1: p1 a@1, c1 a@3",),
    ),
    Case(
        "duplicate, absent: read twice at one offset by two",
        "p1: send k0 a@1 \n c1: poll k0 a@1 \n c2: poll k0 a@1",
    ),
    Case(
        "duplicate, near miss: the other send failed",
        "p1: send k0 a@1 \n p2: send k0 a@3  fail \n c1: poll k0 a@1",
    ),
    # G1a
    Case(
        "G1a",
        "p1: send k0 a k1 b  fail \n c1: poll k0 a@0",
        ("G1a k0 a@0: p1 a, c1 a@0",),
    ),
    Case(
        "G1a, absent: nobody read it", "p1: send k0 a  fail \n p1: send k0 b@1 \n c1: poll k0 b@1"
    ),
    Case(
        "G1a, near miss: a reader of what is uncommitted",
        "p1: send k0 a  fail \n c1: peek k0 a@0",
    ),
    # precommitted-read
    Case(
        "precommitted-read",
        "t1: send k0 a@0; poll k0 a@0",
        ("precommitted-read k0 a@0: t1 a@0, t1 a@0",),
    ),
    Case("precommitted-read, absent: in the next operation", "t1: send k0 a@0 \n t1: poll k0 a@0"),
    Case("precommitted-read, near miss: uncommitted", "t1: send k0 a@0; peek k0 a@0"),
    # phantom
    Case("phantom", "c1: poll k0 a@0 \n c2: poll k0 a@0", ("phantom k0 a@0: c1 a@0",)),
    Case("phantom, absent", "p1: send k0 a  info \n c1: poll k0 a@0"),
    Case(
        "phantom, near miss: sent to another partition",
        "p1: send k1 a@0 \n c1: poll k0 a@0 \n c1: poll k1 a@0",
        ("phantom k0 a@0: c1 a@0",),
    ),
    # lost-write, unseen, vanished
    Case(
        "lost-write",
        """p1: send k0 a@0
           p1: send k0 b@1 d@3
           p2: send k0 c  info
           c1: poll k0 c@2""",
        (
            "lost-write k0 a@0: p1 a@0, c1 c@2",
            "lost-write k0 b@1: p1 b@1, c1 c@2",
            "unseen k0 d@3: p1 d@3",
            "int-send-skip k0 c@2 +2: p1 b@1, p1 d@3",
        ),
    ),
    Case(
        "lost-write, near miss: not proven",
        "p1: send k0 a  k1 b@0  info \n p2: send k1 c  info \n c2: poll k1 c@1",
    ),
    Case(
        "lost-write, absent: another read it, and later",
        "p1: send k0 a@0 b@1 \n c1: poll k0 b@1 \n c2: poll k0 a@0",
    ),
    Case("unseen", "p1: send k0 a@0 b@1 \n c1: poll k0 a@0", ("unseen k0 b@1: p1 b@1",)),
    Case("unseen, absent: not acknowledged", "p1: send k0 a@0  info"),
    Case("unseen, near miss: seen by no broker but a peeker", "p1: send k0 a@0 \n c1: peek k0 a@0"),
    Case(
        "vanished",
        FIRST + "c1: poll k0 a@0 b@1 c@2 \n c2: poll k0 a@0 b@1 d@3",
        (
            "int-poll-skip k0 c@2 +2: c2 b@1, c2 d@3",
            "vanished k0 c@2: p1 c@2, c1 c@2, c2 d@3",
        ),
    ),
    Case(
        "vanished, near miss: read again afterwards",
        FIRST + "c2: poll k0 a@0 b@1 d@3 \n c1: poll k0 a@0 b@1 c@2",
        ("int-poll-skip k0 c@2 +2: c2 b@1, c2 d@3",),
    ),
    Case(
        "vanished, absent: a reader may begin anywhere",
        FIRST + "c1: poll k0 a@0 b@1 c@2 d@3 \n c2: seek k0 \n c2: poll k0 c@2 d@3",
    ),
    Case(
        "vanished, replaced",
        "p1: send k0 a@0 \n c1: poll k0 a@0 \n p2: send k0 b@0 \n c2: poll k0 b@0",
        ("inconsistent-offsets k0 @0: p1 a@0, p2 b@0", "vanished k0 a@0: p1 a@0, c1 a@0, c2 b@0"),
    ),
    Case(
        "vanished, where the log ends",
        "p1: send k0 a@0 b@1 \n c1: poll k0 a@0 b@1 \n c2: end k0@1",
        ("vanished k0 b@1: p1 b@1, c1 b@1, c2 @1",),
    ),
    # poll-skip
    Case(
        "poll-skip",
        FIRST + "c1: poll k0 a@0 b@1 \n c1: poll k0 d@3 \n c2: poll k0 a@0 b@1 c@2",
        ("poll-skip k0 c@2 +2: c1 b@1, c1 d@3",),
    ),
    Case(
        "poll-skip, absent: nobody knows that there was a record",
        "p1: send k0 a@0 \n p1: send k0 b@2 \n c1: poll k0 a@0 \n c1: poll k0 b@2",
    ),
    Case(
        "poll-skip, near miss: another client",
        FIRST + "c1: poll k0 a@0 b@1 \n c2: poll k0 d@3 \n c3: poll k0 b@1 c@2",
    ),
    Case(
        "poll-skip, still assigned",
        FIRST
        + """c1: poll k0 a@0 b@1
             c1: subscribe k0 k1
             c1: assign k0
             c1: poll k0 d@3
             c2: poll k0 c@2""",
        ("poll-skip k0 c@2 +2: c1 b@1, c1 d@3",),
    ),
    Case(
        "poll-skip, near miss: sought another place",
        FIRST + "c1: poll k0 b@1 \n c1: seek k0@3 \n c1: poll k0 d@3 \n c2: poll k0 a@0 b@1 c@2",
    ),
    Case(
        "poll-skip, near miss: rebalanced in the second poll",
        FIRST + "c1: poll k0 b@1 \n c1: rebalance k0; poll k0 d@3 \n c2: poll k0 a@0 b@1 c@2",
    ),
    # nonmonotonic-poll
    Case(
        "nonmonotonic-poll",
        FIRST + "c1: poll k0 a@0 b@1 c@2 \n c1: poll k0 b@1 c@2 d@3",
        ("nonmonotonic-poll k0 b@1 -1: c1 c@2, c1 b@1",),
    ),
    Case("nonmonotonic-poll, absent", FIRST + "c1: poll k0 a@0 b@1 \n c1: poll k0 c@2 d@3"),
    Case(
        "nonmonotonic-poll, near miss: sought the beginning",
        FIRST + "c1: poll k0 a@0 b@1 c@2 d@3 \n c1: seek k0@0 \n c1: poll k0 a@0 b@1",
    ),
    # int-poll-skip
    Case(
        "int-poll-skip",
        FIRST + "c1: poll k0 a@0 c@2 d@3 \n c2: poll k0 b@1",
        ("int-poll-skip k0 b@1 +2: c1 a@0, c1 c@2",),
    ),
    Case(
        "int-poll-skip, absent: other partitions between",
        FIRST + "p2: send k1 x@0 \n c1: poll k0 a@0  k1 x@0  k0 b@1 c@2 d@3",
    ),
    Case(
        "int-poll-skip, near miss: rebalanced",
        FIRST + "c1: poll k0 a@0; poll k0 c@2 d@3; rebalance k0 \n c2: poll k0 b@1",
    ),
    # int-nonmonotonic-poll
    Case(
        "int-nonmonotonic-poll",
        FIRST + "c1: poll k0 a@0 b@1 c@2; poll k0 b@1 c@2 d@3",
        ("int-nonmonotonic-poll k0 b@1 -1: c1 c@2, c1 b@1",),
    ),
    Case(
        "int-nonmonotonic-poll, absent: another partition",
        "p1: send k0 a@0 b@1 \n p2: send k1 x@0 \n c1: poll k0 a@0 b@1; poll k1 x@0",
    ),
    Case(
        "int-nonmonotonic-poll, near miss: rebalanced, everything",
        FIRST + "c1: poll k0 a@0 b@1 c@2; rebalance; poll k0 b@1 c@2 d@3",
    ),
    # nonmonotonic-send
    Case(
        "nonmonotonic-send",
        "p1: send k0 c@3 d@4 \n p1: send k0 a@1 b@2 \n c1: poll k0 a@1 b@2 c@3 d@4",
        ("nonmonotonic-send k0 a@1 -3: p1 d@4, p1 a@1",),
    ),
    Case(
        "nonmonotonic-send, absent: others write between",
        "p1: send k0 a@0 \n p2: send k0 b@1 \n p1: send k0 c@2 \n c1: poll k0 a@0 b@1 c@2",
    ),
    Case(
        "nonmonotonic-send, near miss: the first one failed",
        "p1: send k0 b@1  fail \n p1: send k0 a@0 \n c1: poll k0 a@0",
    ),
    # int-send-skip
    Case(
        "int-send-skip",
        "p1: send k0 a@1 c \n p2: send k0 b  info \n c1: poll k0 a@1 b@2 c@3",
        ("int-send-skip k0 b@2 +2: p1 a@1, p1 c",),
    ),
    Case(
        "int-send-skip, absent", "p1: send k0 a@1 b@2 \n p2: send k0 c@3 \n c1: poll k0 a@1 b@2 c@3"
    ),
    Case(
        "int-send-skip, near miss: a marker between",
        "p1: send k0 a@1 c@3 \n c1: poll k0 a@1 c@3",
    ),
    # int-nonmonotonic-send
    Case(
        "int-nonmonotonic-send",
        """p1: send k0 c@3 a@1
           p2: send k1 d b  info
           p3: send k1 c  info
           c1: poll k0 a@1 c@3  k1 b@2 c@3 d@4""",
        (
            "int-nonmonotonic-send k0 a@1 -1: p1 c@3, p1 a@1",
            "int-nonmonotonic-send k1 b -2: p2 d, p2 b",
        ),
    ),
    Case("int-nonmonotonic-send, absent", "p1: send k0 a@1 c@3 \n c1: poll k0 a@1 c@3"),
    Case(
        "int-nonmonotonic-send, near miss: two operations of two clients",
        "p1: send k0 c@3 \n p2: send k0 a@1 \n c1: poll k0 a@1 c@3",
    ),
)
