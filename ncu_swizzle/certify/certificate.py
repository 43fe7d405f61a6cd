"""A certificate of a proof: one SMT-LIB script, which any solver of bit vectors checks."""

from __future__ import annotations

from collections.abc import Iterator

from ncu_swizzle.certify.change import ChangeVerdict, UnitVerdict, assumes, covers, leaves_out, located, name_of
from ncu_swizzle.certify.verdict import KernelVerdict, ProofOutcome, Query

# Each query is a separate script, between two resets, that says what it shows before it asks: `unsat` is the answer
# if it has no counterexample. What was compiled, from which texts and with which options, stands in comments.

HEAD = """\
; ncu-swizzle prove: {outcome}
; Every (check-sat) is to answer unsat: z3 FILE, or bitwuzla, cvc5, … docs/proof.md says why that is a proof.
; nvcc {compiler}
"""


def written(change: ChangeVerdict) -> str:
    """Return the certificate of a verdict that has its queries."""
    lines = [HEAD.format(outcome=change.outcome.value, compiler=_plain(change.compiler))]
    lines += [f"; source {_plain(name)}: SHA-256 {old}, then {new}\n" for name, old, new in change.sources]
    lines += [f"; assumed: {_plain(text)}\n" for text in assumes(change)]
    lines += [f"; not covered: {_plain(text)}\n" for text in leaves_out(change)]
    for unit in change.units:
        lines += _unit(unit, change.compiler)
    return "".join(lines)


def _unit(unit: UnitVerdict, compiler: str) -> Iterator[str]:
    yield f"\n; unit {_plain(str(unit.source))}, {unit.arch}: nvcc {_plain(' '.join(unit.options))}\n"
    if unit.digests:
        yield f"; PTX: SHA-256 {unit.digests[0]}, then {unit.digests[1]}\n"
    if unit.obstacle:
        yield f"; not proved: {_plain(unit.obstacle)}\n"
    for kernel in unit.kernels:
        yield from _kernel(kernel, unit, compiler)
    for symbol in unit.unchanged:
        yield f"; kernel {symbol}: the same code\n"


def _kernel(kernel: KernelVerdict, unit: UnitVerdict, compiler: str) -> Iterator[str]:
    yield f"; kernel {kernel.kernel}: {kernel.outcome.value}\n"
    if kernel.outcome is ProofOutcome.PROVED:
        yield f"; holds {_plain(covers(kernel, unit, compiler))}\n"
        for assumption in kernel.assumptions:
            yield f"; needs: {_plain(assumption.value)}\n"
    for query in kernel.queries:
        yield from _query(query, name_of(kernel.kernel))


def _query(query: Query, kernel: str) -> Iterator[str]:
    where = located(query.line)
    said = _plain(f"{kernel}{f', {where}' if where else ''}: {query.says}").replace('"', '""')
    yield f'\n(reset)\n(echo "{said}")\n{query.smt.strip()}\n'


def _plain(text: str) -> str:
    """Return a text that stays within its comment or string: names of files and kernels can hold any character."""
    return "".join(character if character.isprintable() else "?" for character in text)


def queries(certificate: str) -> Iterator[tuple[str, str]]:
    """Yield what each query of a certificate says, and its script."""
    for part in certificate.split("\n(reset)\n")[1:]:
        said, _, script = part.partition("\n")
        yield said.removeprefix('(echo "').removesuffix('")').replace('""', '"'), script
