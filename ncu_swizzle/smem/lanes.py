"""The addresses of a warp's lanes: whether they are linear over GF(2), and how a CSV file gives them."""

from __future__ import annotations

import csv
import gzip
import stat
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ncu_swizzle.base.errors import BadFile, reason, remedy
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.operations import WARP, Bools, Ints

# Linear algebra over GF(2), where XOR adds: bank conflicts of linear patterns follow from ranks.
#
# Vectors are integers, one bit per coordinate.


WORD_BITS = 2  # a word of 4 bytes
BANK_BITS = 5  # 32 banks


def rank(vectors: Iterable[int]) -> int:
    """Return how many of the vectors are linearly independent."""
    basis: list[int] = []
    for vector in vectors:
        rest = vector
        for pivot in basis:
            # XOR makes `rest` smaller exactly if it has the pivot's highest bit, and so clears it. No later pivot sets
            # it again: each was reduced by all before it.
            rest = min(rest, rest ^ pivot)
        if rest:
            basis.append(rest)
    return len(basis)


def basis(addresses: Ints) -> tuple[int, ...] | None:
    """Return what each bit of the lane number XORs into the address; None if that is not linear.

    `addresses` are those of 2^k lanes. Affine patterns count: ``address(lane) = address(0) ^ b0 lane0 ^ b1 lane1 …``.
    """
    lanes = len(addresses)
    vectors = [int(addresses[1 << bit] ^ addresses[0]) for bit in range(lanes.bit_length() - 1)]
    image = np.full(lanes, addresses[0])
    for bit, vector in enumerate(vectors):
        image = image ^ np.where(np.arange(lanes) >> bit & 1, vector, 0)
    return tuple(vectors) if (image == addresses).all() else None


def ranks(vectors: Iterable[int], width_bytes: int = 4) -> tuple[int, int]:
    """Return the ranks of the unit bits and of the bank bits of byte offsets, one vector per bit of the lane number.

    A unit is what a lane accesses, at least a word; an access of 8 or 16 bytes spans 2 or 4 banks, counted as one.
    """
    # A linear pattern spreads its 2^r units evenly over 2^s banks, r and s being these ranks: 2^(r - s) ways.
    unit_bits = max(width_bytes.bit_length() - 1, WORD_BITS)
    bank_mask = (1 << BANK_BITS + WORD_BITS) - 1
    columns = list(vectors)
    return rank(v >> unit_bits for v in columns), rank((v & bank_mask) >> unit_bits for v in columns)


MOST_BYTES = 1 << 28  # of text, unpacked

HINT = (
    "a row is a request: 32 byte addresses, empty for an inactive lane; or name the columns "
    "op, active_mask and lane_addresses (32 numbers separated by spaces)"
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Requests:
    """Requests of one operation, with the measured actual and ideal wavefronts if the file has them."""

    op: str
    addresses: Ints  # (N, 32)
    active: Bools  # (N, 32)
    measured: Ints | None = None  # (N, 2)
    source: Ints | None = None  # (N, 32) global addresses that cp.async reads


@dataclass(frozen=True, kw_only=True)
class _RequestRow:
    op: str
    addresses: list[int | None]
    measured: tuple[int, int] | None = None
    source: list[int] | None = None


def read(path: Path, op: str | None = None) -> tuple[Requests, ...]:
    """Return the requests of a CSV file (.csv or .csv.gz) by operation; `op` applies to rows without one.

    Raises BadFile if the file cannot be used.
    """
    try:
        rows = [line for line in csv.reader(_content(path).decode().splitlines()) if line]
    except FileNotFoundError as error:
        raise BadFile(f"{path} does not exist", "name a CSV file of lane addresses") from error
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {reason(error)}", remedy(error, HINT)) from error
    except (ValueError, csv.Error, EOFError, zlib.error) as error:
        raise BadFile(f"{path} cannot be read: {error}", HINT) from error
    return _by_operation(path, list(_rows(path, rows, op)))


def _content(path: Path) -> bytes:
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would block
        raise ValueError("it is not a regular file")
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        content: bytes = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it holds more than {MOST_BYTES >> 20} MiB")
    return content


def _rows(path: Path, rows: Sequence[Sequence[str]], op: str | None) -> Iterator[_RequestRow]:
    named = bool(rows) and "lane_addresses" in [name.strip() for name in rows[0]]
    head = [name.strip() for name in rows[0]] if named else []
    plain_head = bool(rows) and not named and not _is_number(rows[0][-1])
    for number, row in enumerate(rows[1:] if named or plain_head else rows, start=1 + (named or plain_head)):
        try:
            request = _named(dict(zip(head, row, strict=True)), op) if named else _plain(row, op)
            _check(request)
            yield request
        except (ValueError, KeyError) as error:
            raise BadFile(f"{path}, row {number}: {error}", HINT) from error


def _named(row: dict[str, str], op: str | None) -> _RequestRow:
    addresses: list[int | None] = [_number(text) for text in row["lane_addresses"].split()]
    mask = int(row.get("active_mask") or "ffffffff", 16)
    active = [address if mask >> lane & 1 else None for lane, address in enumerate(addresses)]
    counted = row.get("wavefronts") and row.get("ideal")
    measured = (_number(row["wavefronts"]), _number(row["ideal"])) if counted else None
    source = [_number(text) for text in (row.get("source_addresses") or "").split()] or None
    return _RequestRow(op=row.get("op") or op or "", addresses=active, measured=measured, source=source)


def _plain(row: Sequence[str], op: str | None) -> _RequestRow:
    if len(row) == WARP + 1:
        op, *row = row
    return _RequestRow(op=op or "", addresses=[_number(text) if text.strip() else None for text in row])


def _check(row: _RequestRow) -> None:
    if len(row.addresses) != WARP:
        raise ValueError(f"{len(row.addresses)} addresses instead of {WARP}")
    if row.source is not None and len(row.source) != WARP:
        raise ValueError(f"{len(row.source)} source addresses instead of {WARP}")
    if not row.op:
        raise ValueError("no operation: name it with --op, or in a column op")
    operations.find(row.op)


def _number(text: str) -> int:
    number = int(text.strip(), 0)
    if not 0 <= number < 1 << 63:
        raise ValueError(f"{text.strip()} is negative or has more than 64 bits")
    return number


def _is_number(text: str) -> bool:
    try:
        int(text.strip(), 0)
    except ValueError:
        return not text.strip()
    return True


def _by_operation(path: Path, rows: Sequence[_RequestRow]) -> tuple[Requests, ...]:
    if not rows:
        raise BadFile(f"{path} has no requests", HINT)
    groups = []
    for op in dict.fromkeys(row.op for row in rows):
        of_op = [row for row in rows if row.op == op]
        addresses = np.array([[address or 0 for address in row.addresses] for row in of_op], dtype=np.int64)
        active = np.array([[address is not None for address in row.addresses] for row in of_op])
        measured = [row.measured for row in of_op if row.measured is not None]
        counts = np.array(measured, dtype=np.int64) if len(measured) == len(of_op) else None
        sources = [row.source for row in of_op if row.source is not None]
        if sources and len(sources) < len(of_op):
            raise BadFile(f"{path}: some rows of {op} have source addresses, others do not", HINT)
        groups.append(
            Requests(
                op=op,
                addresses=addresses,
                active=active,
                measured=counts,
                source=np.array(sources, dtype=np.int64) if sources else None,
            )
        )
    return tuple(groups)
