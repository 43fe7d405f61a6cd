"""The oracle of tiles against what an H100 did: single descriptors, single boxes, and whole GEMMs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import measured
from tests.support.descriptor_cases import mutated_cases
from tests.support.tile_oracle import TensorMap, operand_bytes, outcome

ROWS = {"A": 64, "B": 128}
EVERY = 4
WORD, MATRIX, LONGEST = 4, 64, 24576  # bytes of an element of the boxes; columns; bytes of shared memory


def test_descriptors_read_what_was_measured() -> None:
    rows = measured.rows("descriptor_reads")
    assert len(rows) == 2800
    for row in rows:
        fields = (int(row[name]) for name in ("start", "leading", "stride", "base_offset", "mode"))
        across = row["mn"] == "1"
        at = operand_bytes(*fields, ROWS[row["side"]], across, 2)[:, :, 0]
        chunks = at.T.reshape(-1, 8)[:, 0] if across else at.reshape(-1, 8)[:, 0]
        assert (chunks // 16).tolist() == [int(word) for word in row["chunks"].split()], row


def test_boxes_are_where_they_were_measured() -> None:
    rows = measured.rows("boxes")
    for row in rows:
        columns, high, start = (int(row[name]) for name in ("columns", "rows", "start"))
        tensor = TensorMap(2, (MATRIX, high), (MATRIX * WORD,), (columns, high), int(row["swizzle"]))
        assert tensor.refused == (row["result"] == "refused"), row
        if tensor.refused:
            continue
        buffer = np.arange(MATRIX * high, dtype=np.uint32).view(np.uint8)
        shared = np.full(LONGEST, 0xFF, np.uint8)
        tensor.copy(buffer, (0, 0), shared, start)
        found = ["." if word == 0xFFFFFFFF else str(word) for word in shared.view(np.uint32)[::4].tolist()]
        assert " ".join(found).rstrip(" .") == row["words"], row


@pytest.mark.parametrize("label", ["0 as it is", "0 A SBO 512", "0 K pairs swapped", "5 A map outer size 512"])
def test_a_gemm_computes_what_it_did(label: str) -> None:
    case = next(one for one in mutated_cases() if one.label == label)
    assert outcome(case.gemm(), case.arrangements) == case.fields["result"]


@pytest.mark.slow
def test_gemms_are_right_where_they_were() -> None:
    for case in mutated_cases()[::EVERY]:
        assert (outcome(case.gemm(), case.arrangements) == "right") == case.right, case.label
