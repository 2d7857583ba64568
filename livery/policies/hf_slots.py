"""The batch of `livery.policies.hf`: keys and values of its rows in one buffer a layer, written in place.

transformers' own cache joins a new column to a copy of all others, for each layer and token. Here columns are written
behind those that stand, rows that leave give their place to the last one, and rows that join are copied in. A row
stands at the right end of its columns when it joins; what is left of it is padding, and padding may also stand between
what was known of a row and what was new to it. Which columns are a row's own says ``mask``.

Not here: what is computed, and which rows come and go.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import partial
from typing import Any

from livery.policies.hf_prefixes import KeyValues

torch: Any = importlib.import_module("torch")
_cache: Any = importlib.import_module("transformers.cache_utils")
Tensor = Any

SPARE: int = 128
"""Columns that a buffer has more than it needs when it is made or made longer."""
LEAST_USED: float = 0.7
"""Share of a batch's columns that must hold a row's own; below it, they are moved together."""


class _Layer(_cache.DynamicLayer):
    """A layer as transformers knows it, over the buffers of `Slots`."""

    def __init__(self, slots: Slots) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._slots = slots
        self.is_initialized = True
        self.stored: tuple[Tensor, Tensor] | None = None
        """Keys and values: (places, heads, room, head size)."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **more: Any) -> tuple[Tensor, Tensor]:
        rows, _, new, _ = key_states.shape
        have = self._slots.columns
        keys, values = self.room(key_states, rows, have + new)
        keys[:rows, :, have : have + new] = key_states
        values[:rows, :, have : have + new] = value_states
        return keys[:rows, :, : have + new], values[:rows, :, : have + new]

    def room(self, like: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        """The buffers, with at least so much room. Zeros where nothing was written: padding is masked, but must be
        finite."""
        old = self.stored
        if old and old[0].shape[0] >= rows and old[0].shape[2] >= columns:
            return old
        heads, size = like.shape[-3], like.shape[-1]
        places = old[0].shape[0] if old and old[0].shape[0] >= rows else max(rows, 2 * old[0].shape[0] if old else 0)
        room = max(columns + SPARE, old[0].shape[2] if old else 0)
        keys, values = (like.new_zeros(places, heads, room, size) for _ in range(2))
        if old:
            used = self._slots.columns
            for new, before in zip((keys, values), old, strict=True):
                new[: before.shape[0], :, :used] = before[:, :, :used]
        self.stored = (keys, values)
        return self.stored

    def get_seq_length(self) -> int:
        return self._slots.columns


class Slots:
    """Rows of a batch, in order."""

    def __init__(self) -> None:
        self.columns = 0
        """Columns in use."""
        self.mask: Tensor = torch.zeros(0, 0, dtype=torch.long)
        """(rows, columns), 1 where a column is a row's own token."""
        self.cache: Any = _cache.Cache(layer_class_to_replicate=partial(_Layer, self))
        """For a model's ``cache`` argument."""

    @property
    def rows(self) -> int:
        return int(self.mask.shape[0])

    @classmethod
    def of(cls, parts: Sequence[KeyValues | None], lengths: Sequence[int]) -> Slots:
        """Rows that begin with what is known of them.

        Args:
            parts: keys and values of each row, of at least its length; None where nothing is known.
            lengths: tokens of each row that are used.
        """
        slots = cls()
        slots.mask = torch.zeros(len(parts), 0, dtype=torch.long)
        if max(lengths):
            slots._widen(max(lengths))
            for i, (part, length) in enumerate(zip(parts, lengths, strict=True)):
                if part and length:
                    slots._write(i, len(parts), part, length)
        return slots

    def extend(self, real: Tensor) -> Tensor:
        """Announce new columns, which the model is about to compute.

        Args:
            real: (rows, new columns), 1 where a column holds a token.

        Returns:
            the mask with them, (rows, columns).
        """
        return torch.cat([self.mask, real], dim=1)

    def computed(self, mask: Tensor) -> None:
        """The model has written the columns up to this mask's."""
        self.mask, self.columns = mask, int(mask.shape[1])

    def row(self, i: int) -> KeyValues:
        """A copy of one row's own keys and values, without padding."""
        own = self._own(self.mask[i])
        return [(k[i, :, own].clone(), v[i, :, own].clone()) for k, v in self._stored()]

    def join(self, other: Slots) -> None:
        """Copy the rows of another batch in, behind those that stand."""
        at = self.rows
        self._widen(other.columns)
        width = other.columns
        added = torch.zeros(other.rows, self.columns, dtype=torch.long)
        added[:, self.columns - width :] = other.mask
        self.mask = torch.cat([self.mask, added])
        for layer, (keys, values) in enumerate(other._stored()):
            mine = self._layer(layer).room(keys, self.rows, self.columns)
            for own, theirs in zip(mine, (keys, values), strict=True):
                own[at : self.rows, :, self.columns - width : self.columns] = theirs[: other.rows, :, :width]

    def last(self, layer: int) -> Tensor | None:
        """(rows, heads, twice the head size): keys and values, joined, of each row's last own column in a layer, zeros
        for a row without any; None where the layer holds nothing."""
        stored = self.cache.layers[layer].stored if layer < len(self.cache.layers) else None
        if stored is None or not self.columns:
            return None
        place = (self.mask * torch.arange(1, self.columns + 1)).max(dim=1).values
        at = torch.arange(self.rows), (place - 1).clamp(min=0)
        joined = torch.cat([t[at[0], :, at[1].to(t.device)] for t in stored], dim=-1)
        return joined * (place > 0).to(device=joined.device, dtype=joined.dtype)[:, None, None]

    def leave(self, i: int) -> None:
        """Take a row out; the last one takes its place."""
        last = self.rows - 1
        if i != last:
            for stored in self._stored():
                for tensor in stored:
                    tensor[i, :, : self.columns] = tensor[last, :, : self.columns]
            self.mask[i] = self.mask[last]
        self.mask = self.mask[:last]
        self.tidy()

    def tidy(self) -> None:
        """Move columns together where many are padding in every row."""
        used = self.mask.any(dim=0)
        count = int(used.sum())
        if count == self.columns or count > LEAST_USED * self.columns:
            return
        where = used.nonzero()[:, 0]
        for stored in self._stored():
            for tensor in stored:
                tensor[: self.rows, :, :count] = tensor[: self.rows, :, where.to(tensor.device)]
        self.mask, self.columns = self.mask[:, used], count

    def _widen(self, columns: int) -> None:
        """At least so many columns, the new ones padding."""
        if columns > self.columns:
            # What another row left in them is behind the mask, and finite.
            for layer in range(len(self.cache.layers)):
                keys = self._layer(layer).stored
                if keys:
                    self._layer(layer).room(keys[0], keys[0].shape[0], columns)
            self.mask = torch.cat([self.mask, torch.zeros(self.rows, columns - self.columns, dtype=torch.long)], dim=1)
            self.columns = columns

    def _write(self, i: int, rows: int, part: KeyValues, length: int) -> None:
        """Row ``i`` of ``rows``: its first tokens at the right end of the columns."""
        for layer, pair in enumerate(part):
            stored = self._layer(layer).room(pair[0], rows, self.columns)
            for tensor, known in zip(stored, pair, strict=True):
                tensor[i, :, self.columns - length : self.columns] = known[:, :length]
        self.mask[i, self.columns - length :] = 1

    def _layer(self, index: int) -> _Layer:
        while len(self.cache.layers) <= index:
            self.cache.layers.append(_Layer(self))
        return self.cache.layers[index]

    def _stored(self) -> list[tuple[Tensor, Tensor]]:
        return [layer.stored for layer in self.cache.layers if layer.stored]

    def _own(self, mask: Tensor) -> Any:
        """A row's own columns: a slice where they stand together, else their indices."""
        where = mask.nonzero()[:, 0]
        if len(where) and int(where[-1] - where[0]) + 1 == len(where):
            return slice(int(where[0]), int(where[-1]) + 1)
        return where
