"""The table of opcodes: complete for the SASS that tests keep, and consistent with what executes opcodes."""

import lzma
import re

import pytest

from bench.figures.census import mnemonic
from bench.oracles import opcodes_on_gpu
from ncu_swizzle.emulate import program  # noqa: F401  it has all steps registered
from ncu_swizzle.emulate.control import HANDLERS
from ncu_swizzle.emulate.operands import COMPILERS, MAKERS
from ncu_swizzle.smem.opcodes import ATOMIC, READ, ROWS, TABLE, WRITE, Copy, Memory, Opcode, Shared, row
from tests.support.places import DATA

MNEMONIC = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@\S+ )?([A-Z][A-Z0-9_]*)", re.M)


def test_an_opcode_has_one_row() -> None:
    assert len(ROWS) == len(TABLE)


@pytest.mark.long
def test_every_opcode_of_kept_code_has_a_row() -> None:
    files = sorted((DATA / "cubins").glob("*.sass.xz"))
    assert files
    found = {opcode for file in files for opcode in MNEMONIC.findall(lzma.decompress(file.read_bytes()).decode())}
    assert {opcode for opcode in found if not row(opcode).modelled} <= {"UMEMSETS"}


def test_what_executes_an_opcode_fits_its_row() -> None:
    for opcode in HANDLERS.keys() - {"SYNCS.PHASECHK"}:
        assert row(opcode).control
    for each in ROWS:
        executed = each.addressed or each.tile or (each.global_access and each.modelled) or each.copy is not Copy.NO
        assert (each.name in MAKERS) >= executed, each
    for opcode in COMPILERS:
        assert row(opcode).modelled
        assert opcode not in MAKERS


@pytest.mark.parametrize(
    ("opcode", "memory", "does"),
    [
        ("LDS", Memory.SHARED, READ),
        ("STSM", Memory.SHARED, WRITE),
        ("ATOMS", Memory.SHARED, ATOMIC),
        ("LDGSTS", Memory.SHARED, WRITE),
        ("LDGSTS", Memory.GLOBAL, READ),
        ("RED", Memory.GLOBAL, ATOMIC),
        ("RED", Memory.SHARED, ""),
        ("LDL", Memory.LOCAL, READ),
    ],
)
def test_what_an_opcode_does_to_a_memory(opcode: str, memory: Memory, does: str) -> None:
    assert row(opcode).does(memory) == does


def test_an_opcode_without_a_row_may_do_anything() -> None:
    unknown: Opcode = row("NEWOP")
    assert unknown.shared is Shared.UNKNOWN
    assert unknown.may_be_counted
    assert unknown.untracked
    assert unknown.results == 1


EXECUTED = opcodes_on_gpu.kept()["instructions"]


def opcode_of(text: str) -> str:
    return mnemonic(text).partition(".")[0]


def assert_computed_as_on_an_h100(texts: list[str]) -> None:
    for text in texts:
        assert opcodes_on_gpu.digest_here(text) == EXECUTED[text][-1], text


def test_some_instructions_write_what_they_write_on_an_h100() -> None:
    assert_computed_as_on_an_h100(sorted(EXECUTED)[::40])


@pytest.mark.long
@pytest.mark.parametrize("opcode", sorted({opcode_of(text) for text in EXECUTED}))
def test_instructions_write_what_they_write_on_an_h100(opcode: str) -> None:
    assert_computed_as_on_an_h100([text for text in EXECUTED if opcode_of(text) == opcode])
