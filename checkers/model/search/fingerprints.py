"""The set of states that were found, with the parent of each state: 16 bytes a state.

The set stores only the 64-bit fingerprint of a state, as TLC does (Yu, Manolios, Lamport: Model
checking TLA+ specifications). Two states with the same fingerprint count as one state;
``collisions`` bounds the probability of this.

The table uses open addressing in two NumPy arrays. Kernels on several threads may insert at the
same time: a thread takes a slot by compare-and-swap (``_exchange``), which Numba does not offer.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from highwater.checkers.model.protocol.compiled import rule

Words = np.ndarray[Any, np.dtype[np.uint64]]
"""Fingerprints, or states as words of eight bytes."""

FULL: Final = 0.6
"""The share of taken slots above which the table of states is doubled, if memory allows this."""

CROWDED: Final = 0.85
"""The share of taken slots above which no state is inserted, because a search for a free slot is
too slow."""

_SMALLEST: Final = 1 << 16
_PRIME_1, _PRIME_2, _PRIME_4 = (
    np.uint64(0x9E3779B185EBCA87),
    np.uint64(0xC2B2AE3D27D4EB4F),
    np.uint64(0x85EBCA77C2B2AE63),
)
_MIX_1, _MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_R31, _R33 = np.uint64(31), np.uint64(33)


class Table(NamedTuple):
    """Two arrays of 2ⁿ slots: fingerprints of states (0: free slot), and of their parents.

    The initial state is its own parent.
    """

    keys: Words
    parents: Words


def new_table(slots: int = _SMALLEST) -> Table:
    """Return a table without entries."""
    return Table(np.zeros(slots, np.uint64), np.zeros(slots, np.uint64))


def size_of(table: Table) -> int:
    """Return the memory that a table uses, in bytes."""
    return table.keys.nbytes + table.parents.nbytes


def ancestors(table: Table, fingerprint: int) -> list[int]:
    """Return the fingerprints on the path from the initial state to a state, both included.

    Raises:
        KeyError: a fingerprint on the path is not in the table.
    """
    chain = [fingerprint]
    while (parent := _parent_of(table, chain[-1])) != chain[-1]:
        chain.append(parent)
    return chain[::-1]


def _parent_of(table: Table, fingerprint: int) -> int:
    mask = len(table.keys) - 1
    slot = fingerprint & mask
    while (key := int(table.keys[slot])) != fingerprint:
        if not key:
            raise KeyError(fingerprint)
        slot = (slot + 1) & mask
    return int(table.parents[slot])


def collisions(states: int) -> float:
    """Return an upper bound of the probability that two of n fingerprints are equal: n² / 2⁶⁵."""
    return min(1.0, states * states / 2.0**65)


@rule
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    lane = lane + word * _PRIME_2
    return ((lane << _R31) | (lane >> _R33)) * _PRIME_1


@rule
def fingerprint(state: Words) -> np.uint64:
    """Return a state's 64-bit fingerprint: xxHash64's rounds, MurmurHash3's finish."""
    a, b, c, d = _PRIME_1, _PRIME_2, _PRIME_4, _MIX_1
    words, at = state.shape[0], 0
    while at + 4 <= words:
        a, b = _round(a, state[at]), _round(b, state[at + 1])
        c, d = _round(c, state[at + 2]), _round(d, state[at + 3])
        at += 4
    while at < words:
        a = _round(a, state[at])
        at += 1
    value = _round(_round(_round(a, b), c), d)
    value = (value ^ (value >> _R33)) * _MIX_1
    value = (value ^ (value >> _R33)) * _MIX_2
    value = value ^ (value >> _R33)
    return value or _PRIME_1


def _exchange(_: Any, array: Any, slot: Any, value: Any) -> Any:  # noqa: ANN401 - Numba's
    """Write a value to a slot if the slot holds 0, atomically; return the slot's old value."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        kind = signature.args[0]
        keys = context.make_array(kind)(context, builder, arguments[0])
        pointer_to: Any = cgutils.get_item_pointer
        pointer = pointer_to(context, builder, kind, keys, [arguments[1]])
        free = ir.Constant(ir.IntType(64), 0)
        previous = builder.cmpxchg(pointer, free, arguments[2], "acq_rel", "acquire")
        return builder.extract_value(previous, 0)

    del slot, value
    return types.uint64(array, types.intp, types.uint64), generate


_take: Any = intrinsic(_exchange)


@rule
def insert(table: Table, key: np.uint64, parent: np.uint64) -> bool:
    """Insert a fingerprint with its parent; return True if the fingerprint is new.

    Only compiled code may call this.
    """
    keys = table.keys
    mask = np.uint64(keys.shape[0] - 1)
    slot = key & mask
    while True:
        stored = keys[slot]
        if stored == 0:
            stored = _take(keys, np.intp(slot), key)
            if stored == 0:
                table.parents[slot] = parent
                return True
        if stored == key:
            return False
        slot = (slot + np.uint64(1)) & mask


@rule
def copy_all(old: Table, new: Table) -> None:
    """Insert every entry of one table into another. Only compiled code may call this."""
    for slot in range(old.keys.shape[0]):
        if old.keys[slot] != 0:
            insert(new, old.keys[slot], old.parents[slot])
