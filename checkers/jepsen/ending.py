"""Whether who read from the beginning in the end came as far as anybody had.

Jepsen's clients end with that (``final-polls`` of ``jepsen.tests.kafka``): they seek the beginning
of every key and poll until they are where the test had come. Where none gets there, a partition may
have been wiped after it was read, have expired, or not have answered: polls that return nothing
tell no difference. Jepsen's checker calls such a history valid.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from checkers.clients.columns import NONE, any_of, groups, numbers
from checkers.clients.facts import EVERYWHERE, SOUGHT
from checkers.clients.kernels import choose, look_up
from checkers.clients.strides import READS, SENDS
from checkers.clients.view import View

SHOWN: Final = 8

_SHORT: Final = pa.schema([("slot", pa.int64()), ("offset", pa.int64())])


def short(view: View) -> list[tuple[str, int, int]]:
    """Topic, partition and the greatest known offset where no reader came as far in the end.

    The foremost ``SHOWN`` of them. Asked are readers who sought the beginning (an offset that is
    null) after that offset was known; where there are none, the history does not tell.
    """
    if not view.tells(SOUGHT):
        return []
    found = view.strides.by(["slot"], ends_short, _SHORT).table()
    named = found.join(view.names, "slot", join_type="inner")
    rows = named.sort_by([("topic", "ascending"), ("partition", "ascending")]).to_pylist()
    return [(row["topic"], row["partition"], row["offset"]) for row in rows[:SHOWN]]


def ends_short(strides: pa.Table) -> pa.Table:
    """The greatest offset of slots whose late readers did not come as far. A kernel by ``slot``."""
    rows = numbers(strides)
    what = rows["what"]
    told = choose(rows, ((what == READS) | (what == SENDS)) & rows["ok"])
    begun = any_of(what, SOUGHT) & ~any_of(what, EVERYWHERE) & (rows["place"] == NONE)
    if not (begun.any() and len(told["at"])):
        return _SHORT.empty_table()
    # The greatest offset of each slot, and when it was known first.
    told = choose(told, np.lexsort((told["last_at"], -told["last_place"], told["slot"])))
    end = choose(told, groups(told["slot"]))
    seeks = choose(rows, begun)
    seeks = choose(seeks, np.lexsort((-seeks["at"], seeks["client"], seeks["slot"])))
    seeks = choose(seeks, groups(seeks["slot"], seeks["client"]))
    own = look_up(end["slot"], seeks["slot"])
    late = (own != NONE) & (seeks["at"] > end["last_at"][own])
    seeks, own = choose(seeks, late), own[late]
    came = choose(told, told["what"] == READS)
    reached = [
        bool(
            (
                (came["slot"] == slot)
                & (came["client"] == client)
                & (came["last_place"] >= far)
                & (came["last_at"] > sought)
            ).any()
        )
        for slot, client, sought, far in zip(
            *(seeks[name] for name in ("slot", "client", "at")), end["last_place"][own], strict=True
        )
    ]
    asked, there = np.unique(own), np.unique(own[np.array(reached, np.bool_)])
    missed = asked[~np.isin(asked, there)]
    return pa.table([end["slot"][missed], end["last_place"][missed]], names=_SHORT.names)
