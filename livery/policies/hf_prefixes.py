"""Beginnings of conversations that were read once: their keys and values, and who shares them.

Used by `livery.policies.hf`, which computes them; here they are only kept, found and forgotten.
"""

from __future__ import annotations

from typing import Any

Tensor = Any

KeyValues = list[tuple[Tensor, Tensor]]
"""Keys and values of one row, a pair of (heads, tokens, head size) a layer."""

WORTH = 32
"""Tokens that a shared beginning must save before it is evaluated on its own."""


class Prefixes:
    """Keys and values of beginnings, least recently used out first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """Bytes."""
        self._held = 0
        self._entries: dict[tuple[int, ...], KeyValues] = {}
        """Last used last."""

    def clear(self) -> None:
        self._entries.clear()
        self._held = 0

    def longest(self, ids: tuple[int, ...], most: int) -> tuple[int, KeyValues | None]:
        """(length, keys and values) of the longest known beginning of ``ids`` of at most ``most`` tokens. The
        entry may hold more tokens than that length."""
        best, found = 0, None
        for known in self._entries:
            length = min(common(known, ids), most)
            if length > best:
                best, found = length, known
        if found is None:
            return 0, None
        self._entries[found] = entry = self._entries.pop(found)
        return best, entry

    def keep(self, ids: tuple[int, ...], kv: KeyValues) -> None:
        size = size_of(kv)
        if size > self.limit or ids in self._entries:
            return
        for known in [k for k in self._entries if k == ids[: len(k)]]:
            self._held -= size_of(self._entries.pop(known))  # the longer one serves for it
        self._entries[ids] = kv
        self._held += size
        while self._held > self.limit:
            oldest = next(iter(self._entries))
            self._held -= size_of(self._entries.pop(oldest))


def size_of(kv: KeyValues) -> int:
    return sum(t.numel() * t.element_size() for pair in kv for t in pair)


def common(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Length of the common beginning."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    # Slices are compared at C speed: halving beats a loop over the ids.
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle - 1)
    return low


def sharing(prompts: list[tuple[int, ...]]) -> list[list[int]]:
    """Groups of at least two prompts that begin alike for a length worth its own pass."""
    groups: list[list[int]] = []
    for i, prompt in enumerate(prompts):
        home = next((g for g in groups if common(prompts[g[0]], prompt) >= WORTH), None)
        if home is None:
            groups.append([i])
        else:
            home.append(i)
    return [g for g in groups if len(g) > 1]
