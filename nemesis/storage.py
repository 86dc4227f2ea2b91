"""Faults of the disk: what a broker finds when it comes back, other than what it had written.

Every one kills its broker first (SIGKILL, which leaves the page cache alone), then changes files of
its log directory, and heals by starting it on those. What Kafka does not mend by itself stays.
"""

from collections.abc import Iterator
from typing import Final

from checkers.taken import phrase
from clusters.cluster import Cluster
from harness.plan import Topic
from nemesis import damage
from nemesis.fault import Aim, aimed

FLUSHES: Final = "flush.messages"


def flushes(topic: Topic) -> int | None:
    """After how many records a topic's logs are flushed; None: that is left to the kernel."""
    told = topic.config.get(FLUSHES)
    return None if told is None else int(told)


@aimed("power-failure")
def power_failure(cluster: Cluster, aim: Aim) -> Iterator[str]:
    """Kill a broker and take from its logs what was never flushed, as the end of power does.

    No lower than the recovery point, and nothing of a segment that a newer one has followed: what
    Kafka flushed stays. ``Aim.choice`` is the share of the unflushed bytes that reached the disk.
    """
    target = cluster.brokers[aim.victim]
    target.kill()
    try:
        cuts = damage.lose_unflushed(
            target.directory, flushes=flushes(aim.topic), spared=aim.choice
        )
        ours = [one for one in cuts if one.topic == aim.topic.name]
        told = ", ".join(phrase(one.topic, one.partition, one.after, one.before) for one in ours)
        yield f"broker {target.id} lost its power: {told or 'all it held had been flushed'}"
    finally:
        target.start()
