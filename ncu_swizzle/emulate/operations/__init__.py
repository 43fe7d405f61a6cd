"""The instructions' arithmetic: `table.compiled` gives for each one what carries it out on a Machine."""

from __future__ import annotations
