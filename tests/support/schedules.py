"""Schedules written by hand, as a model would compile them; replicas A, B and C are 0, 1 and 2."""

from highwater.checkers.model.schedules.schedule import Action, Expect, Schedule, ScheduleStep

A, B, C = 0, 1, 2
ALL = frozenset({A, B, C})


def _everywhere(leo: int) -> dict[int, int]:
    return {A: leo, B: leo, C: leo}


SETTLE = (
    ScheduleStep(
        action="send",
        record="m1",
        says="m1 is sent",
        expect=Expect(acked=frozenset({"m1"}), leo=_everywhere(1), hw={A: 1}),
    ),
    ScheduleStep(
        action="send",
        record="m2",
        says="m2 is sent, committed, and held by B and C above their HW",
        expect=Expect(
            leader=A,
            isr=ALL,
            acked=frozenset({"m1", "m2"}),
            leo=_everywhere(2),
            hw={A: 2, B: 1, C: 1},
        ),
    ),
)


def two_moves(*, cuts: bool = True) -> Schedule:
    """Three replicas hold m2, which is acknowledged; leadership moves twice, and nobody fails.

    Args:
        cuts: whether a follower cuts to its own HW, so that m2 is lost, or keeps m2.
    """
    held, leo = frozenset({A, B}), 1 if cuts else 2

    def step(action: Action, broker: int, says: str, expect: Expect) -> ScheduleStep:
        return ScheduleStep(action=action, broker=broker, says=says, held=held, expect=expect)

    return Schedule(
        kafka="0.10.2.2" if cuts else "0.11.0.3",
        name="two moves",
        steps=(
            *SETTLE,
            step("move", B, "B is elected, and held before it knows", Expect(leader=B, isr=ALL)),
            step("truncate", C, "C hears of B, and cannot fetch", Expect(leo={C: leo})),
            step("move", C, "C is elected", Expect(leader=C, isr=ALL)),
            step("learn", C, "C leads", Expect(leo={C: leo}, alive=ALL)),
            ScheduleStep(
                action="send",
                record="m3",
                says="C appends m3, before A, which is ahead of it otherwise and would end itself",
                held=held,
                expect=Expect(leo={C: leo + 1}),
            ),
            ScheduleStep(
                action="fetch",
                says="A and B follow C, and m3 is committed",
                expect=Expect(
                    acked=frozenset({"m1", "m2", "m3"}),
                    refused=frozenset(),
                    leo=_everywhere(leo + 1),
                ),
            ),
        ),
    )


LOSS = Schedule(
    kafka="0.10.2.2",
    name="loss",
    steps=(
        *SETTLE,
        ScheduleStep(
            action="kill",
            broker=A,
            says="A is killed inside the window",
            held=frozenset({B, C}),
            expect=Expect(alive=ALL),
        ),
        ScheduleStep(action="kill", broker=B, says="B is killed", held=frozenset({C})),
        ScheduleStep(
            action="expire",
            broker=A,
            says="A's session ends, and B, dead, is elected",
            expect=Expect(leader=B, isr=frozenset({B, C})),
        ),
        ScheduleStep(
            action="truncate",
            broker=C,
            says="C follows B, and cuts its log to its own HW",
            expect=Expect(leo={C: 1}),
        ),
        ScheduleStep(
            action="expire",
            broker=B,
            says="B's session ends, and C is elected",
            expect=Expect(leader=C, isr=frozenset({C}), leo={C: 1}),
        ),
        ScheduleStep(
            action="start",
            broker=A,
            says="A comes back",
            expect=Expect(isr=frozenset({A, C}), leo={A: 1, C: 1}),
        ),
    ),
)
"""The story ``loss``, as a schedule."""

ZOMBIE = Schedule(
    kafka="0.10.2.2",
    name="zombie leader",
    acks="1",
    steps=(
        ScheduleStep(
            action="send",
            record="m1",
            says="m1 is sent",
            expect=Expect(acked=frozenset({"m1"}), leo=_everywhere(1)),
        ),
        ScheduleStep(action="pause", broker=A, says="A is paused"),
        ScheduleStep(
            action="expire",
            broker=A,
            says="A's session ends, and B is elected",
            expect=Expect(leader=B, isr=frozenset({B, C})),
        ),
        ScheduleStep(action="learn", broker=B, says="B leads"),
        ScheduleStep(
            action="send",
            record="m2",
            broker=A,
            says="m2 is sent to A, which does not know yet",
            expect=Expect(acked=frozenset({"m1"})),
        ),
        ScheduleStep(
            action="resume",
            broker=A,
            says="A wakes, and acknowledges m2",
            expect=Expect(acked=frozenset({"m1", "m2"})),
        ),
        ScheduleStep(
            action="truncate",
            broker=A,
            says="A follows B, and cuts m2 off",
            expect=Expect(leader=B, isr=ALL, leo=_everywhere(1), refused=frozenset()),
        ),
    ),
)
"""A leader that was deposed while it was frozen acknowledges a record that nobody else gets."""
