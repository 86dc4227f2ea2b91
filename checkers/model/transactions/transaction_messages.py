"""Requests in flight: send, abandon and deliver them, in the order of each connection."""

from highwater.checkers.model.protocol.compiled import Constants, State, copy_state, rule
from highwater.checkers.model.transactions import transaction_layout as layout
from highwater.checkers.model.transactions.transaction_layout import (
    message,
    set_message,
)


@rule
def way_of(c: int, receiver: int) -> int:
    """Return the number of the connection from a producer to a leader or to COORDINATOR."""
    return c * (layout.MAX_PARTITIONS + 1) + receiver


@rule
def message_count(s: State) -> int:
    """Return the number of messages in flight."""
    count = 0
    for slot in range(layout.MAX_MESSAGES):
        count += int(message(s, slot, layout.M_KIND) != 0)
    return count


@rule
def put_message(s: State, kind: int, way: int, connection: int, argument: int, epoch: int) -> None:
    """Add a request in flight, after all others."""
    for slot in range(layout.MAX_MESSAGES):
        if message(s, slot, layout.M_KIND) == 0:
            set_message(s, slot, layout.M_KIND, kind)
            set_message(s, slot, layout.M_WAY, way)
            set_message(s, slot, layout.M_CONNECTION, connection)
            set_message(s, slot, layout.M_ARGUMENT, argument)
            set_message(s, slot, layout.M_EPOCH, epoch)
            return
    s[layout.FLAGS] = int(s[layout.FLAGS]) | layout.FLAG_OVERFLOW


@rule
def take_out(s: State, slot: int) -> None:
    """Remove a message from the messages in flight."""
    for later in range(slot, layout.MAX_MESSAGES - 1):
        for field in range(layout.MESSAGE):
            set_message(s, later, field, message(s, later + 1, field))
    for field in range(layout.MESSAGE):
        set_message(s, layout.MAX_MESSAGES - 1, field, 0)


@rule
def is_first(s: State, slot: int) -> bool:
    """Return whether a message is the first on its connection."""
    for earlier in range(slot):
        if message(s, earlier, layout.M_WAY) == message(s, slot, layout.M_WAY) and message(
            s, earlier, layout.M_CONNECTION
        ) == message(s, slot, layout.M_CONNECTION):
            return False
    return True


@rule
def _key(s: State, slot: int) -> int:
    if message(s, slot, layout.M_KIND) == 0:
        return 10_000
    return message(s, slot, layout.M_WAY) * 16 + message(s, slot, layout.M_CONNECTION)


@rule
def sort_messages(s: State) -> None:
    """Sort the messages by connection; the order within a connection stays."""
    for end in range(1, layout.MAX_MESSAGES):
        slot = end
        while slot > 0 and _key(s, slot - 1) > _key(s, slot):
            for field in range(layout.MESSAGE):
                value = message(s, slot, field)
                set_message(s, slot, field, message(s, slot - 1, field))
                set_message(s, slot - 1, field, value)
            slot -= 1


@rule
def in_form(s: State, out: State, k: Constants) -> None:  # noqa: ARG001 - of all machines
    """Write the state ``s`` to ``out``, with its messages in the order of their connections."""
    copy_state(s, out)
    sort_messages(out)
