"""The batch's keys and values: what is written in place is what a copy of everything would hold."""

import random

import pytest

pytest.importorskip("torch", reason="needs the training extra: torch is not installed")
pytest.importorskip("transformers", reason="needs the training extra: transformers is not installed")

import torch

from livery.policies.hf_slots import Slots

LAYERS, HEADS, SIZE = 2, 3, 4


def made(length):
    return [(torch.randn(HEADS, length, SIZE), torch.randn(HEADS, length, SIZE)) for _ in range(LAYERS)]


def same(found, expected):
    return all(torch.equal(a, b) for f, e in zip(found, expected, strict=True) for a, b in zip(f, e, strict=True))


def grown(slots, rows, real):
    """New columns for every row, as a model's layers write them; returns what each row should hold then."""
    rows_, new = real.shape
    mask = slots.extend(real)
    columns = [made(new) for _ in range(rows_)]
    for layer in range(LAYERS):
        keys, values = (torch.stack([c[layer][side] for c in columns]) for side in range(2))
        whole = slots.cache.update(keys, values, layer)
        assert whole[0].shape == (rows_, HEADS, mask.shape[1], SIZE)
    slots.computed(mask)
    own = [r.bool() for r in real]
    return [
        [
            tuple(torch.cat([old, fresh[:, o]], 1) for old, fresh in zip(*pair, strict=True))
            for pair in zip(row, c, strict=True)
        ]
        for row, c, o in zip(rows, columns, own, strict=True)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_rows_that_come_grow_and_go_keep_their_own(seed):
    torch.manual_seed(seed)
    rng = random.Random(seed)
    slots, rows = Slots(), []
    for _ in range(60):
        if rng.random() < 0.3 or not rows:
            lengths = [rng.randint(0, 200) for _ in range(rng.randint(1, 3))]
            parts = [made(n) for n in lengths]
            new = Slots.of([p if n else None for p, n in zip(parts, lengths, strict=True)], lengths)
            fresh = grown(new, parts, torch.tensor([[i % 2, 1] for i in range(len(parts))]))
            if rows:
                slots.join(new)
            else:
                slots = new
            rows += fresh
        elif rng.random() < 0.4:
            i = rng.randrange(len(rows))
            slots.leave(i)
            last = rows.pop()
            if i < len(rows):
                rows[i] = last
        else:
            rows = grown(slots, rows, torch.ones(len(rows), 1, dtype=torch.long))
        assert slots.rows == len(rows)
        assert all(same(slots.row(i), row) for i, row in enumerate(rows))
        assert all(t.isfinite().all() for layer in slots.cache.layers if layer.stored for t in layer.stored)


def test_columns_of_rows_that_left_are_not_kept_for_ever():
    slots = Slots.of([made(500), made(10)], [500, 10])
    grown(slots, [made(0), made(0)], torch.ones(2, 1, dtype=torch.long))
    slots.leave(0)
    assert slots.columns == 11


def test_a_row_longer_than_the_batch_joins_it():
    short, long = made(3), made(400)
    slots = Slots.of([short], [3])
    slots.join(Slots.of([long], [400]))
    assert same(slots.row(0), short)
    assert same(slots.row(1), long)
    assert slots.columns == 400
