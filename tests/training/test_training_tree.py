"""Rows laid out as trees."""

import random

import pytest

from livery.training.tree import Layout, Node, join, lay_out


def rows_of(seed, count=9):
    rng = random.Random(seed)
    rows = [tuple(rng.randrange(3) for _ in range(rng.randrange(1, 12))) for _ in range(count)]
    return [*rows, rows[0], rows[1][:1]]


def test_a_shared_beginning_stands_once():
    layout = lay_out([(1, 2, 3, 4), (1, 2, 3, 5, 6), (1, 2, 3, 5, 7)], least_shared=1)
    assert layout.ids == (1, 2, 3, 4, 5, 6, 7)
    assert layout.nodes == (
        Node(0, 3, -1, 0),
        Node(3, 4, 0, 3),
        Node(4, 5, 0, 3),
        Node(5, 6, 2, 4),
        Node(6, 7, 2, 4),
    )
    assert layout.positions == [0, 1, 2, 3, 3, 4, 4]
    assert layout.places(2) == [0, 1, 2, 4, 6]


@pytest.mark.parametrize("least", [1, 2, 5])
@pytest.mark.parametrize("seed", range(20))
def test_every_row_can_be_read_back_with_its_positions(seed, least):
    rows = rows_of(seed)
    layout = lay_out(rows, least_shared=least)
    for i, row in enumerate(rows):
        places = layout.places(i)
        assert tuple(layout.ids[p] for p in places) == row
        assert [layout.positions[p] for p in places] == list(range(len(row)))
    assert [n.start for n in layout.nodes] == [0, *(n.stop for n in layout.nodes[:-1])]
    assert all(n.parent < i for i, n in enumerate(layout.nodes))


def test_with_any_length_worth_sharing_no_two_siblings_begin_alike():
    rows = rows_of(3, count=30)
    layout = lay_out(rows, least_shared=1)
    firsts = [(n.parent, layout.ids[n.start]) for n in layout.nodes]
    assert len(firsts) == len(set(firsts))
    # A trie has one token for each distinct beginning.
    assert len(layout.ids) == len({row[: i + 1] for row in rows for i in range(len(row))})


def test_short_beginnings_are_written_again():
    rows = [(1, 2, 3, 4, 9, 9, 5), (1, 2, 3, 4, 9, 9, 6), (1, 2, 3, 4, 8)]
    layout = lay_out(rows, least_shared=4)
    assert [layout.ids[n.start : n.stop] for n in layout.nodes] == [(1, 2, 3, 4), (9, 9, 5), (9, 9, 6), (8,)]


def test_a_row_may_end_where_another_goes_on_and_equal_rows_share_a_leaf():
    layout = lay_out([(1, 2), (1, 2, 3), (1, 2), ()], least_shared=1)
    assert layout.leaves == (0, 1, 0, -1)
    assert layout.places(3) == []


def test_layouts_are_joined_without_touching():
    one, two = lay_out([(1, 2), (1, 3)], least_shared=1), lay_out([(1, 4)], least_shared=1)
    both = join([one, two])
    assert both == Layout(
        (1, 2, 3, 1, 4), (Node(0, 1, -1, 0), Node(1, 2, 0, 1), Node(2, 3, 0, 1), Node(3, 5, -1, 0)), (1, 2, 3)
    )
    assert both.places(2) == [3, 4]
