"""Rows that begin alike, laid out as one tree: each shared beginning once.

A tree is written flat, a node after its parent. A node is a stretch of tokens; a row is a path from the root.
A token attends to its own node up to itself and to the nodes above it, and its position is its place in its
row, so a model computes for it what it would compute in the row alone. This module is the layout; the
attention that keeps to it is `livery.training.packing`. It needs no torch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

LEAST_SHARED = 16
"""Tokens that rows must share below a node before they get a node in common. Shorter ones are cheaper written
twice than attended to apart."""


@dataclass(frozen=True, slots=True)
class Node:
    start: int
    stop: int
    """Its tokens are ``ids[start:stop]`` of the layout."""
    parent: int
    """Index of the node above; -1 for a root."""
    depth: int
    """Position of its first token: the tokens on the path above it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One tree or several, flat."""

    ids: tuple[int, ...]
    nodes: tuple[Node, ...]
    """They follow one another without a gap; a parent stands before its children."""
    leaves: tuple[int, ...]
    """For each row, the node in which it ends (its last token is the node's last)."""

    @property
    def positions(self) -> list[int]:
        return [n.depth + i for n in self.nodes for i in range(n.stop - n.start)]

    def path(self, node: int) -> list[int]:
        """The nodes from the root to ``node``, both included."""
        out: list[int] = []
        while node >= 0:
            out.append(node)
            node = self.nodes[node].parent
        return out[::-1]

    def places(self, row: int) -> list[int]:
        """Where the row's tokens stand in ``ids``, in the row's order."""
        if self.leaves[row] < 0:
            return []
        path = [self.nodes[n] for n in self.path(self.leaves[row])]
        return [i for n in path for i in range(n.start, n.stop)]


def lay_out(rows: Sequence[Sequence[int]], *, least_shared: int = LEAST_SHARED) -> Layout:
    """The rows as trees, those that begin alike in one. Rows that are equal share their leaf.

    Args:
        rows: ids; a row without any has no leaf (-1).
        least_shared: see `LEAST_SHARED`; at least 1.
    """
    ids: list[int] = []
    nodes: list[Node] = []
    leaves = [-1] * len(rows)

    def grow(members: list[int], offset: int, parent: int) -> None:
        """Write the rest of ``members``, which are equal up to ``offset``, below ``parent``."""
        nexts: defaultdict[int, list[int]] = defaultdict(list)
        for row in members:
            if offset < len(rows[row]):
                nexts[rows[row][offset]].append(row)
            else:
                leaves[row] = parent
        for group in nexts.values():
            stop = offset + _common([rows[row] for row in group], offset)
            ends = all(len(rows[row]) == stop for row in group)
            if len(group) > 1 and stop - offset < least_shared and not ends:
                for same in _equal(group, rows):
                    add(same, offset, len(rows[same[0]]), parent)
            else:
                add(group, offset, stop, parent)

    def add(members: list[int], offset: int, stop: int, parent: int) -> None:
        nodes.append(Node(len(ids), len(ids) + stop - offset, parent, offset))
        ids.extend(rows[members[0]][offset:stop])
        grow(members, stop, len(nodes) - 1)

    grow(list(range(len(rows))), 0, -1)
    return Layout(tuple(ids), tuple(nodes), tuple(leaves))


def _common(rows: list[Sequence[int]], offset: int) -> int:
    """Tokens after ``offset`` that all have in common."""
    first, shortest = rows[0], min(len(r) for r in rows)
    length = shortest - offset
    for row in rows[1:]:
        i = 0
        while i < length and row[offset + i] == first[offset + i]:
            i += 1
        length = i
    return length


def _equal(group: list[int], rows: Sequence[Sequence[int]]) -> list[list[int]]:
    same: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for row in group:
        same[tuple(rows[row])].append(row)
    return list(same.values())


def join(layouts: Sequence[Layout]) -> Layout:
    """Several layouts after one another; their rows in order."""
    ids: list[int] = []
    nodes: list[Node] = []
    leaves: list[int] = []
    for layout in layouts:
        at, first = len(ids), len(nodes)
        nodes += [
            Node(n.start + at, n.stop + at, n.parent + first if n.parent >= 0 else -1, n.depth) for n in layout.nodes
        ]
        leaves += [leaf + first if leaf >= 0 else -1 for leaf in layout.leaves]
        ids += layout.ids
    return Layout(tuple(ids), tuple(nodes), tuple(leaves))
