"""The golden histories of the clients' view: for each kind present, absent, and a near miss."""

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
    Case(
        "inconsistent-offsets, proven: another record of the operation was read",
        """p1: send k0 a@0 k1 x  info
           p2: send k0 b@0
           c1: poll k1 x@5
           c1: poll k0 b@0""",
        ("inconsistent-offsets k0 @0: p1 a@0, p2 b@0", "lost-write k0 a@0: p1 a@0, c1 b@0"),
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
    Case(
        "duplicate, in operations that failed: polls are to be trusted, sends not",
        """p1: send k0 x@1
           p1: send k0 y@2  fail
           c1: poll k0 x@11 y@12  fail
           c2: poll k0 x@1""",
        ("duplicate k0 x@1: p1 x@1, c1 x@11",),
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
    Case("G1a, near miss: nobody knows", "p1: send k0 a  info \n c1: poll k0 a@0"),
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
        "lost-write, proven by another record of its operation",
        """p1: send k0 a  k1 b@0  info
           p2: send k1 c  info
           c1: poll k0 a@0
           c2: poll k1 c@1""",
        ("lost-write k1 b@0: p1 b@0, c2 c@1",),
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
    Case("unseen, nobody knows where", "p1: send k0 a", ("unseen k0 a: p1 a",)),
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
        "vanished, before where a reader sought",
        FIRST + "c1: poll k0 a@0 b@1 c@2 d@3 \n c2: seek k0@0 \n c2: poll k0 c@2 d@3",
        ("vanished k0 a@0: p1 a@0, c1 a@0, c2 c@2", "vanished k0 b@1: p1 b@1, c1 b@1, c2 c@2"),
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
        "vanished, as a later send was given a place before",
        """p1: send k0 a@0 b@1 c@2
           c1: poll k0 a@0 b@1 c@2
           p2: send k0 x@1
           c2: poll k0 x@1""",
        (
            "inconsistent-offsets k0 @1: p1 b@1, p2 x@1",
            "vanished k0 b@1: p1 b@1, c1 b@1, c2 x@1",
            "vanished k0 c@2: p1 c@2, c1 c@2, p2 x@1",
        ),
    ),
    Case(
        "vanished, near miss: what was given that place nobody reads",
        """p1: send k0 a@0 b@1 c@2
           c1: poll k0 a@0 b@1 c@2
           p2: send k0 x@1""",
        ("inconsistent-offsets k0 @1: p1 b@1, p2 x@1", "lost-write k0 x@1: p2 x@1, c1 c@2"),
    ),
    Case(
        "vanished, absent: what was given that place is the record, read before it was sent",
        """p1: send k0 a@0
           p2: send k0 b@0
           c1: poll k0 c@1
           p3: send k0 c@1
           c2: poll k0 a@0""",
        ("inconsistent-offsets k0 @0: p1 a@0, p2 b@0", "lost-write k0 b@0: p2 b@0, c1 c@1"),
    ),
    Case(
        "vanished, where the log ends",
        "p1: send k0 a@0 b@1 \n c1: poll k0 a@0 b@1 \n c2: end k0@1",
        ("vanished k0 b@1: p1 b@1, c1 b@1, c2 @1",),
    ),
    Case(
        "vanished, absent: the log ends behind it, and another partition's before",
        "p1: send k0 a@0 b@1 \n c1: poll k0 a@0 b@1 \n c2: end k0@2 k1@0",
    ),
    Case(
        "vanished, near miss: who told the end was deposed, as somebody came further",
        "p1: send k0 a@0 b@1 \n c1: poll k0 a@0 b@1 \n c2: end k0@0 \n c3: poll k0 b@1",
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
        "poll-skip, near miss: assigned to another partition in between",
        FIRST
        + """c1: poll k0 a@0 b@1
             c1: assign k1
             c1: assign k0
             c1: poll k0 d@3
             c2: poll k0 c@2""",
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
        "poll-skip, an assignment that failed changes nothing",
        FIRST
        + "c1: poll k0 b@1 \n c1: assign k1  fail \n c1: poll k0 d@3 \n c2: poll k0 a@0 b@1 c@2",
        ("poll-skip k0 c@2 +2: c1 b@1, c1 d@3",),
    ),
    Case(
        "poll-skip, near miss: assigned to nothing",
        FIRST + "c1: poll k0 b@1 \n c1: assign \n c1: poll k0 d@3 \n c2: poll k0 a@0 b@1 c@2",
    ),
    Case(
        "poll-skip, near miss: sought another place",
        FIRST + "c1: poll k0 b@1 \n c1: seek k0@3 \n c1: poll k0 d@3 \n c2: poll k0 a@0 b@1 c@2",
    ),
    Case(
        "poll-skip, sought a place in another partition",
        FIRST + "c1: poll k0 b@1 \n c1: seek k1@3 \n c1: poll k0 d@3 \n c2: poll k0 a@0 b@1 c@2",
        ("poll-skip k0 c@2 +2: c1 b@1, c1 d@3",),
    ),
    Case(
        "poll-skip, near miss: rebalanced in the second poll",
        FIRST + "c1: poll k0 b@1 \n c1: rebalance k0; poll k0 d@3 \n c2: poll k0 a@0 b@1 c@2",
    ),
    Case(
        "poll-skip, near miss: rebalanced in the first poll",
        FIRST + "c1: rebalance k0; poll k0 b@1 \n c1: poll k0 d@3 \n c2: poll k0 a@0 b@1 c@2",
    ),
    Case(
        "poll-skip, rebalanced before the first poll",
        FIRST
        + """c1: rebalance k0
             c1: poll k0 b@1
             c1: poll k0 d@3
             c2: poll k0 a@0 b@1 c@2""",
        ("poll-skip k0 c@2 +2: c1 b@1, c1 d@3",),
    ),
    Case(
        "poll-skip, the place of what was skipped is known from its reader alone",
        """p1: send k0 a b c  info
           c1: poll k0 a@4
           c1: poll k0 c@9
           c2: poll k0 b@7""",
        ("poll-skip k0 b@7 +2: c1 a@4, c1 c@9",),
    ),
    Case(
        "a poll that fails leaves the reader where it was",
        FIRST
        + """c1: poll k0 a@0
             c1: poll k0 b@1 c@2  fail
             c1: poll k0 b@1 c@2  info
             c1: poll k0 b@1 c@2 d@3""",
    ),
    Case(
        "a poll that fails should leave the reader where it was",
        FIRST
        + """p1: send k0 e@4
             c1: poll k0 a@0
             c1: poll k0 b@1  fail
             c1: poll k0 c@2 d@3  info
             c1: poll k0 e@4
             c2: poll k0 a@0 b@1 c@2 d@3""",
        (
            "poll-skip k0 b@1 +2: c1 a@0, c1 c@2",
            "poll-skip k0 b@1 +4: c1 a@0, c1 e@4",
        ),
    ),
    # nonmonotonic-poll
    Case(
        "nonmonotonic-poll",
        FIRST + "c1: poll k0 a@0 b@1 c@2 \n c1: poll k0 b@1 c@2 d@3",
        ("nonmonotonic-poll k0 b@1 -1: c1 c@2, c1 b@1",),
    ),
    Case(
        "nonmonotonic-poll, the same once more",
        FIRST + "c1: poll k0 a@0 b@1 c@2 d@3 \n c1: poll k0 d@3",
        ("nonmonotonic-poll k0 d@3 +0: c1 d@3, c1 d@3",),
    ),
    Case("nonmonotonic-poll, absent", FIRST + "c1: poll k0 a@0 b@1 \n c1: poll k0 c@2 d@3"),
    Case(
        "nonmonotonic-poll, near miss: sought the beginning",
        FIRST + "c1: poll k0 a@0 b@1 c@2 d@3 \n c1: seek k0@0 \n c1: poll k0 a@0 b@1",
    ),
    Case(
        "nonmonotonic-poll, near miss: sought from wherever, everywhere",
        FIRST + "c1: poll k0 a@0 b@1 c@2 d@3 \n c1: seek \n c1: poll k0 a@0 b@1",
    ),
    Case(
        "nonmonotonic-poll, deltas count known records alone",
        "p1: send k0 a@10 b@20 c@30 \n c1: poll k0 a@10 b@20 c@30 \n c1: poll k0 a@10",
        ("nonmonotonic-poll k0 a@10 -2: c1 c@30, c1 a@10",),
    ),
    # int-poll-skip
    Case(
        "int-poll-skip",
        FIRST + "c1: poll k0 a@0 c@2 d@3 \n c2: poll k0 b@1",
        ("int-poll-skip k0 b@1 +2: c1 a@0, c1 c@2",),
    ),
    Case(
        "int-poll-skip, between two polls of an operation",
        FIRST + "c1: poll k0 a@0; poll k0 d@3 \n c2: poll k0 b@1 c@2",
        ("int-poll-skip k0 b@1 +3: c1 a@0, c1 d@3",),
    ),
    Case(
        "int-poll-skip, absent: other partitions between",
        FIRST + "p2: send k1 x@0 \n c1: poll k0 a@0  k1 x@0  k0 b@1 c@2 d@3",
    ),
    Case(
        "int-poll-skip, near miss: rebalanced",
        FIRST + "c1: poll k0 a@0; poll k0 c@2 d@3; rebalance k0 \n c2: poll k0 b@1",
    ),
    Case(
        "int-poll-skip, another partition was rebalanced",
        FIRST + "c1: poll k0 a@0; poll k0 c@2 d@3; rebalance k1 \n c2: poll k0 b@1",
        ("int-poll-skip k0 b@1 +2: c1 a@0, c1 c@2",),
    ),
    Case(
        "int-poll-skip, what was aborted is no place to a reader of what is committed",
        """t1: send k0 a@0
           t2: send k0 b@1  fail
           t3: send k0 c@2
           c1: peek k0 a@0 b@1 c@2
           c2: poll k0 a@0 c@2""",
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
    Case(
        "int-nonmonotonic-poll, near miss: sought in between",
        FIRST + "c1: poll k0 a@0 b@1 c@2; seek k0@1; poll k0 b@1 c@2 d@3",
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
    Case(
        "nonmonotonic-send, near miss: two producers",
        "p1: send k0 b@1 \n p2: send k0 a@0 \n c1: poll k0 a@0 b@1",
    ),
    Case(
        "nonmonotonic-send, as readers tell",
        "p1: send k0 a \n p1: send k0 b  info \n c1: poll k0 b@0 a@1",
        ("nonmonotonic-send k0 b -1: p1 a, p1 b",),
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
    # What is left of Jepsen's own tests (jepsen/tests/kafka_test.clj)
    Case(
        "jepsen: version-orders-test",
        "c1: poll k0 a@0 b@1 \n p1: send k0 c@1 b@3 d@4  info",
        (
            "duplicate k0 b@1: c1 b@1, p1 b@3",
            "inconsistent-offsets k0 @1: c1 b@1, p1 c@1",
            "lost-write k0 c@1: p1 c@1, c1 b@1",
            "phantom k0 a@0: c1 a@0",
        ),
    ),
    Case(
        "jepsen: version-orders-test, a real-world example",
        "p379: send k11 641@537 \n p363: send k11 645@537",
        (
            "inconsistent-offsets k11 @537: p379 641@537, p363 645@537",
            "unseen k11 641@537: p379 641@537",
            "unseen k11 645@537: p363 645@537",
        ),
    ),
    Case(
        "jepsen: duplicate-test, hash-insensitive",
        """p0: send k0 a@0
           p1: poll k0 a@1
           p0: send k0 b@0
           p1: poll k0 b@1""",
        (
            "duplicate k0 a@0: p0 a@0, p1 a@1",
            "duplicate k0 b@0: p0 b@0, p1 b@1",
            "inconsistent-offsets k0 @0: p0 a@0, p0 b@0",
            "inconsistent-offsets k0 @1: p1 a@1, p1 b@1",
            "nonmonotonic-poll k0 b@1 +0: p1 a@1, p1 b@1",
            "nonmonotonic-send k0 b@0 +0: p0 a@0, p0 b@0",
            "vanished k0 a@1: p0 a@0, p1 a@1, p1 b@1",
        ),
    ),
    Case(
        "jepsen: poll-skip-test",
        """p0: poll k0 a@1 b@2
           p1: poll k0 c@3
           p0: poll k0 d@4
           p2: send k0 f@6
           p0: poll k0 g@7
           p3: send k0 a b c d g  info""",
        (
            "int-send-skip k0 f@6 +2: p3 d, p3 g",
            "lost-write k0 f@6: p2 f@6, p0 g@7",
            "poll-skip k0 c@3 +2: p0 b@2, p0 d@4",
            "poll-skip k0 f@6 +2: p0 d@4, p0 g@7",
        ),
    ),
    Case(
        "jepsen: poll-skip-test, with intermediate subscribe",
        """p0: poll k0 a@1 b@2
           p1: poll k0 c@3
           p0: subscribe k1
           p0: poll k0 d@4
           p3: send k0 a b c d  info""",
    ),
    Case(
        "jepsen: nonmonotonic-poll-test, with intermediate assign, without and with it",
        """p0: send k0 a b c d
           p1: poll k0 a@1 b@2 c@3
           p1: assign k1
           p1: poll k0 b@2 c@3 d@4
           p2: poll k0 a@1 b@2 c@3
           p2: assign k0 k1
           p2: poll k0 b@2 c@3 d@4""",
        ("nonmonotonic-poll k0 b@2 -1: p2 c@3, p2 b@2",),
    ),
    Case(
        "jepsen: nonmonotonic-send-test, with intermediate subscribe, without and with it",
        """p0: send k0 c@3 d@4
           p0: subscribe k1
           p0: send k0 a@1 b@2
           p1: send k1 c@3 d@4
           p1: assign k0 k1  info
           p1: send k1 a@1 b@2
           p2: poll k0 a@1 b@2 c@3 d@4  k1 a@1 b@2 c@3 d@4""",
        ("nonmonotonic-send k1 a@1 -3: p1 d@4, p1 a@1",),
    ),
    Case("jepsen: empty-history-test", "p0: assign k0"),
    Case(
        "jepsen: unseen-test",
        "p0: send k0 a@0 b@1 \n p0: poll k0 a@0 \n p0: poll k0 b@1",
    ),
)
