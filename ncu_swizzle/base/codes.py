"""Stable codes: one for each finding of lint, check and the rule pack, and one for each reason for an unknown.

A code is never reused for something else. Each has a page, ``docs/rules/CODE.md``, which the site shows and the
terminal prints.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import UsageError, did_you_mean
from ncu_swizzle.base.files import read_bytes


class Severity(StrEnum):
    """What a finding means for the verdict: it fails, warns, informs, or keeps something from being judged."""

    error = "error"
    warning = "warning"
    note = "note"
    unknown = "unknown"


LINE, KERNEL = "line", "kernel"  # what a finding is about; only findings about a line can be suppressed in the source


@dataclass(frozen=True, kw_only=True)
class RuleCode:
    """A row of the catalogue. `remedy` says how to resolve an unknown."""

    id: str
    name: str
    meaning: str
    severity: Severity
    commands: tuple[str, ...]
    about: str
    remedy: str = ""

    @property
    def unknown(self) -> bool:
        """Whether it is a reason for an unknown rather than a finding."""
        return self.severity is Severity.unknown


LINT, CHECK, PACK = ("lint", "check"), ("check",), ("profile", "report", "rules apply")
LINTED = ("lint",)
GATED = (*LINT, "explain")  # what the emulator leaves unknown


def _rows(
    severity: Severity, commands: tuple[str, ...], about: str, rows: Sequence[tuple[str, ...]]
) -> Iterator[RuleCode]:
    for id_, name, meaning, *remedy in rows:
        yield RuleCode(
            id=id_, name=name, meaning=meaning, severity=severity, commands=commands, about=about,
            remedy=next(iter(remedy), ""),
        )  # fmt: skip


CONFLICT, MATRIX, COPY, ATOMIC, WMMA, COMPILER = (f"SW00{n}" for n in range(1, 7))
TILE, ALONG_K, TENSOR_MAP, VALUES, TARGET, BYTES, UNREAD = (f"SW01{n}" for n in range(7))
OUTSIDE, BUILD, WRONG_OUTPUT = "SW020", "SW021", "SW022"
DESCRIPTOR, INSTRUCTION, TENSOR_ALLOCATION, TENSOR_COLUMNS, TENSOR_LANES, TENSOR_ORDER = (
    f"TC00{n}" for n in range(1, 7)
)
EXCESS_LIMIT, DEGREE_LIMIT, TIME_LIMIT, BASELINE_LIMIT = (f"SW03{n}" for n in range(4))
RACE, ASYNC_RACE, PROXY_FENCE, LANES, SAME_PLACE, SAME_VALUE, EXITED, POLLED, OVERWRITES = (
    f"RACE00{n}" for n in range(1, 10)
)
GLOBAL_RACE, GLOBAL_SAME = "RACE020", "RACE021"
STUCK, PHASE, BARRIER_COUNT, DIVERGENT, MBARRIER = (f"RACE01{n}" for n in range(5))
UNCOALESCED, UNALIGNED, SPILLED, LOCAL_ARRAY, PARTING = (f"MEM00{n}" for n in range(1, 6))
SECTOR_LIMIT = "MEM030"
UNUSED, UNKNOWN_CODE = "SW090", "SW091"
DATA, LAUNCH, TIMING, UNWRITTEN, NOT_EMULATED, NO_RULE, BLOCKS_DIFFER, NOT_RUN = (f"UN00{n}" for n in range(1, 9))
NOT_LAUNCHED, UNCHECKED_BOUNDS, UNFOLLOWED, UNCHECKED_ORDER = "UN010", "UN011", "UN012", "UN013"
NOT_COLLECTED, IMPLAUSIBLE, NOT_MEASURED, ABSENT, INCOMPARABLE, UNTIMED, FEW_SAMPLES, UNLIKE = (
    f"UN02{n}" for n in range(8)
)

CATALOGUE: dict[str, RuleCode] = {
    code.id: code
    for code in (
        *_rows(Severity.error, LINTED, LINE, [
            (CONFLICT, "bank-conflict", "Lanes of a load or store want different words of one bank."),
            (MATRIX, "matrix-conflict", "Rows of an ldmatrix, stmatrix or wgmma tile share banks."),
            (COPY, "copy-conflict", "A cp.async takes more wavefronts than the 128-byte lines it copies."),
            (ATOMIC, "atomic-conflict", "Lanes of an atomic operation want the same word, or words of one bank."),
            (WMMA, "wmma-conflict", "Rows of a wmma tile are a multiple of 128 bytes apart."),
            (COMPILER, "compiler-layout-conflict", "A compiler of kernels in Python chose a layout that conflicts."),
        ]),
        *_rows(Severity.error, LINT, LINE, [
            (TILE, "descriptor-mismatch", "wgmma or tcgen05.mma reads no tile of the tensor through its descriptor."),
            (ALONG_K, "k-mismatch", "A and B of a product do not go together along K, or rows are mixed in a sum."),
            (TENSOR_MAP, "tensor-map-mismatch", "A tensor map does not describe the matrix in its buffer."),
            (VALUES, "tensor-map-values", "A tensor map changes values on their way: its type or its fill."),
            (TARGET, "misaligned-box", "A tensor copy goes to where TMA cannot write."),
            (BYTES, "mbarrier-bytes", "An mbarrier expects another number of bytes than its copies bring."),
            (UNREAD, "tile-unread", "TMA copies a box of which wgmma reads only a part, or nothing."),
            (DESCRIPTOR, "tcgen05-descriptor", "A shared-memory descriptor is not one that tcgen05 reads."),
            (INSTRUCTION, "tcgen05-instruction", "An instruction descriptor fits no tcgen05.mma of its kind."),
            (TENSOR_ALLOCATION, "tensor-memory-allocation", "Columns are allocated or freed as tcgen05 refuses."),
            (TENSOR_COLUMNS, "tensor-memory-columns", "Columns of tensor memory are used that are not allocated."),
            (TENSOR_LANES, "tensor-memory-lanes", "Lanes of tensor memory are used that the warp may not."),
            (TENSOR_ORDER, "tensor-memory-order", "Tensor memory is read before it is written, or overwritten unread."),
            (OUTSIDE, "out-of-bounds", "An access to global memory is outside of the launch's buffers."),
            (WRONG_OUTPUT, "wrong-output", "An output differs from its reference."),
        ]),
        *_rows(Severity.error, LINT, LINE, [
            (RACE, "race", "Two warps access a byte, one of them writes it, and nothing orders them."),
            (ASYNC_RACE, "async-race", "A copy, wgmma or tcgen05 that is under way is not waited for."),
            (PROXY_FENCE, "missing-proxy-fence", "TMA, wgmma or tcgen05 reads what threads wrote, not fenced."),
            (EXITED, "exited-block", "A block of a cluster that another one accesses may have ended, or not begun."),
            (STUCK, "deadlock", "Threads wait at a barrier that others never reach."),
            (PHASE, "endless-phase", "An mbarrier is waited for in a phase that cannot complete."),
            (BARRIER_COUNT, "barrier-count", "Threads meet at a named barrier with different counts."),
            (MBARRIER, "mbarrier-misuse", "An mbarrier gets more arrivals than it counts, or was not initialised."),
            (GLOBAL_RACE, "global-race", "Two threads access a word of global memory in no order, one writes."),
        ]),
        *_rows(Severity.warning, LINT, LINE, [
            (LANES, "unordered-lanes", "Lanes of one warp rely on running in step: no __syncwarp() orders them."),
            (SAME_PLACE, "same-place", "Several lanes of one store write the same byte: any of them may remain."),
            (SAME_VALUE, "same-value", "A race between stores of the same value."),
            (POLLED, "polled", "A race that is meant: a thread polls a flag until another one sets it."),
            (OVERWRITES, "unfenced-overwrite", "TMA overwrites what threads read or wrote, without fence.proxy.async."),
            (DIVERGENT, "divergent-barrier", "Only some threads of a warp are at a barrier of the block."),
            (GLOBAL_SAME, "global-same-value", "Threads store the same, as far as is known, to a global word."),
        ]),
        *_rows(Severity.error, LINTED, KERNEL, [
            (BUILD, "not-built", "A kernel does not compile, or its launch or arguments do not fit."),
        ]),
        *_rows(Severity.error, CHECK, KERNEL, [
            (EXCESS_LIMIT, "max-excessive", "A kernel has more excessive wavefronts than its limit."),
            (DEGREE_LIMIT, "max-degree", "A kernel's degree, actual over ideal wavefronts, is over its limit."),
            (TIME_LIMIT, "max-regression", "A kernel got slower than in the baseline, beyond limit and noise."),
            (BASELINE_LIMIT, "more-than-baseline", "A kernel has more excessive wavefronts than in the baseline."),
        ]),
        *_rows(Severity.warning, LINTED, LINE, [
            (UNCOALESCED, "uncoalesced", "A warp's bytes of global memory lie in more sectors than they fill."),
            (UNALIGNED, "unaligned", "A warp's bytes of global memory are side by side, but begin inside of a sector."),
            (SPILLED, "spilled-registers", "Spilled registers are stored or loaded in a loop."),
            (LOCAL_ARRAY, "local-array", "An array in local memory is accessed in a loop."),
            (PARTING, "divergent-branch", "At least half of the warps part at a branch."),
        ]),
        *_rows(Severity.error, CHECK, KERNEL, [
            (SECTOR_LIMIT, "max-sectors", "A kernel takes more sectors for each ideal one than its limit."),
        ]),
        *_rows(Severity.note, PACK, KERNEL, [
            ("SW040", "SharedExcess", "How many shared-memory wavefronts are excessive, and where."),
            ("SW041", "ConflictCost", "What the excessive wavefronts cost in time, with an interval."),
            ("SW042", "SwizzleAdvice", "Which swizzle or padding to try, from opcode, width and degree."),
            ("SW043", "PartialSwizzle", "A swizzle removed only a part of a conflict: its mask is too narrow."),
            ("SW044", "PhantomConflicts", "Hardware counters report conflicts that no address causes."),
            ("SW045", "StallShift", "Where warps stall, and which stall dominates without conflicts."),
            ("SW046", "rule-failed", "A rule of the pack failed on a report: its finding is missing."),
            ("SW047", "GlobalSectors", "How many sectors of global memory are excessive, and which lines ncu adds up."),
        ]),
        *_rows(Severity.warning, LINT, LINE, [
            (UNUSED, "unused-suppression", "A suppression hides nothing."),
            (UNKNOWN_CODE, "unknown-code", "A suppression names no code, or one that does not exist."),
        ]),
        *_rows(Severity.unknown, GATED, LINE, [
            (DATA, "data", "It depends on data that are not given.",
             "give the data: --arg with numbers, arange, iota or a .npy file, --sample, or capture --memory"),
            (LAUNCH, "launch", "It depends on a constant of the launch that is not known.",
             "give what the kernel reads of its launch, such as --shared in multiples of 256"),
            (TIMING, "timing", "It depends on when the hardware does something, such as the order of atomics.",
             "measure it on a GPU: ncu-swizzle profile; a count may differ from run to run"),
            (UNWRITTEN, "unwritten", "It depends on a register that nothing wrote.",
             "initialise the variable: the hardware's value is not defined either"),
            (NOT_EMULATED, "not-emulated", "It depends on an instruction whose result is not computed.",
             "measure it on a GPU: ncu-swizzle profile"),
            (NO_RULE, "no-rule", "No rule is known for the wavefronts of this instruction or request.",
             "measure it on a GPU: ncu-swizzle profile"),
            (BLOCKS_DIFFER, "blocks-differ", "Blocks that should behave alike do not.",
             "run every block: --exhaustive"),
            (NOT_RUN, "not-run", "The emulation ended before it was counted.",
             "a smaller --problem, a larger --budget, or what the hint of the check says"),
        ]),
        *_rows(Severity.unknown, LINT, KERNEL, [
            (NOT_LAUNCHED, "not-launched", "No launch of the kernel is described, or its compiler is not installed.",
             "describe the launch: ncu-swizzle init FILE"),
            (UNCHECKED_BOUNDS, "unchecked-bounds", "Whether accesses stay within their buffers was not checked.",
             "give the data that addresses depend on, or compute-sanitizer on a GPU"),
            (UNFOLLOWED, "unfollowed-tiles", "Not every tile was followed from TMA to wgmma.",
             "compare the kernel's output with a reference: ncu-swizzle profile on a GPU"),
            (UNCHECKED_ORDER, "unchecked-order", "Whether accesses to shared memory are ordered was not all followed.",
             "give the data that addresses and branches depend on, or compute-sanitizer on a GPU"),
        ]),
        *_rows(Severity.unknown, CHECK, KERNEL, [
            (NOT_COLLECTED, "not-collected", "The report lacks a metric, or counts of some instructions.",
             "collect it: ncu-swizzle profile, or the ncu command that ncu-swizzle report prints"),
            (IMPLAUSIBLE, "implausible", "The report contradicts itself, so that its counts are not trusted.",
             "profile it again"),
            (NOT_MEASURED, "not-measured", "The values are recorded, and a gate judges what was measured or computed.",
             "measure on a machine with a GPU and ncu, or pass --allow-recorded"),
            (ABSENT, "absent", "A kernel with a limit or a baseline is not among the profiles.",
             "give its profile too, or judge only some kernels: --kernel-name NAME"),
            (INCOMPARABLE, "incomparable", "The baseline has no entry that can be compared with.",
             "save it under these conditions: ncu-swizzle check PROFILE --save-baseline"),
            (UNTIMED, "untimed", "A duration is not known, or was not taken under known clocks.",
             "measure on a GPU, with --clock-control base"),
        ]),
        *_rows(Severity.unknown, PACK, KERNEL, [
            (FEW_SAMPLES, "few-samples", "Too few warp samples say where a kernel waits.",
             "profile a larger problem: it takes longer, and is sampled more often"),
            (UNLIKE, "unlike-measured", "The launch is unlike those that the estimate of time was calibrated with.",
             "measure the fix"),
        ]),
    )
}  # fmt: skip

FORM = re.compile(r"(?:SW|UN|MEM|RACE|TC)[0-9]+")
DOCS = "NCU_SWIZZLE_DOCS"  # the address of the documentation, as our action sets it
HELP = "ncu-swizzle explain codes lists them"
LIST = "codes"  # the word for the list of all of them


def is_code(text: str) -> bool:
    """Return whether a text is a code, looks like one in capitals (a kernel may be called sw128), or means all."""
    return text == LIST or text.upper() in CATALOGUE or FORM.fullmatch(text) is not None


def named(text: str) -> RuleCode:
    """Return a code, in capitals or not; raise UsageError with the nearest one."""
    if code := CATALOGUE.get(text.upper()):
        return code
    raise UsageError(no_such(text), HELP)


def no_such(text: str) -> str:
    """Return a message that there is no such code, with the nearest one."""
    word = re.fullmatch(r"([A-Z]+)([0-9]+)", text.upper())
    padded = f"{word[1]}{int(word[2]):03}" if word else ""  # SW1, SW01 and SW0001 are SW001
    meant = f", did you mean {padded!r}?" if padded in CATALOGUE else did_you_mean(text.upper(), CATALOGUE)
    return f"there is no code {text!r}{meant}"


def page(text: str) -> str:
    """Return the page of a code, in Markdown; for LIST, that of all codes. Raises what `named` raises."""
    name = "index" if text == LIST else named(text).id
    return read_bytes(paths.docs() / "rules" / f"{name}.md").decode()


def uri(code: str) -> str:
    """Return the address of a code's page: on the web, else that of the file, which only this machine has."""
    return web(code) or (paths.docs() / "rules" / f"{code}.md").absolute().as_uri()


def web(code: str) -> str:
    """Return the address of a code's page on the web; empty if the documentation's address is not known."""
    site = os.environ.get(DOCS, "") or _stated()
    if not site.startswith("https://"):
        return ""
    return f"{site.rstrip('/')}/rules/{code}.{'md' if '/blob/' in site else 'html'}"


@cache
def _stated() -> str:
    """Return the documentation's address from the package's metadata, else the commit that pip installed it from."""
    from importlib import metadata  # takes longer than all of this module

    try:
        package = metadata.distribution("ncu-swizzle")
    except metadata.PackageNotFoundError:  # a checkout that is not installed
        return ""
    for stated in package.metadata.get_all("Project-URL") or []:
        name, _, address = stated.partition(",")
        if name == "Documentation":
            return str(address).strip()
    origin = json.loads(package.read_text("direct_url.json") or "{}")
    commit = origin.get("vcs_info", {}).get("commit_id", "")
    return f"{origin['url'].removesuffix('.git')}/blob/{commit}/docs" if commit else ""
