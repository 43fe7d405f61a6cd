"""Blocks that run in clusters: all blocks of a cluster run side by side, in the order of their ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ncu_swizzle.smem.banks import Ints

RANK_BIT = 24  # of a shared address: the bits from here on are the rank of the block in its cluster


Chosen = Ints | slice  # some of the running blocks


def whole_clusters(blocks: Ints, shape: tuple[int, int, int]) -> tuple[Ints, Chosen]:
    """Return the blocks of each block's cluster, (B · size, 3), and where among them the given ones are."""
    size, extent = math.prod(shape), np.array(shape)
    if size == 1:
        return blocks, slice(None)
    ranks = np.arange(size)
    inside = np.stack([ranks % shape[0], ranks // shape[0] % shape[1], ranks // (shape[0] * shape[1])], axis=1)
    first = blocks // extent * extent
    everyone: Ints = (first[:, None, :] + inside).reshape(-1, 3)
    return everyone, np.arange(len(blocks)) * size + rank_of(blocks, shape)


def rank_of(blocks: Ints, shape: tuple[int, int, int]) -> Ints:
    """Return the rank of each block in its cluster."""
    within = blocks % np.array(shape)
    ranks: Ints = within[:, 0] + shape[0] * (within[:, 1] + shape[1] * within[:, 2])
    return ranks


@dataclass(frozen=True)
class Clusters:
    """The running blocks by cluster. Blocks are given by their index among the running ones."""

    blocks: Ints  # (B, 3), whole clusters
    shape: tuple[int, int, int]

    @cached_property
    def size(self) -> int:
        """The blocks of a cluster."""
        return math.prod(self.shape)

    @cached_property
    def ranks(self) -> Ints:
        """Each block's rank."""
        return rank_of(self.blocks, self.shape)

    def at(self, blocks: Ints, addresses: Ints) -> Ints:
        """Return the block that each block's shared address is in."""
        ranks = addresses.astype(np.int64) >> RANK_BIT
        owner: Ints = np.where(ranks < self.size, self.base(blocks) + ranks, blocks)
        return owner

    def base(self, blocks: Ints) -> Ints:
        """Return the first block of each block's cluster."""
        first: Ints = blocks // self.size * self.size
        return first

    def around(self, blocks: Ints) -> Ints:
        """Return all blocks of these blocks' clusters."""
        return np.unique((self.base(np.unique(blocks))[:, None] + np.arange(self.size)).ravel())
