"""What Java's share consumer tells of acknowledgements."""

from typing import Any

from highwater.harness.clients.libraries.consumers.java_share_consumer import ShareAnswers

PRINTED = "{sUDfx-1a=x:events-0=[3, 1, 12], -QmK3:some-topic-2=[7]}"


class Printed:
    """A map of Java."""

    def toString(self) -> str:  # noqa: N802 - of Java
        return PRINTED


def test_every_offset_of_every_partition_is_answered() -> None:
    answers: list[tuple[int, list[int], Any]] = []
    callback = ShareAnswers(lambda *answer: answers.append(answer))
    callback.onComplete(Printed(), None)
    callback.raise_again()
    assert answers == [(0, [3, 1, 12], None), (2, [7], None)]
