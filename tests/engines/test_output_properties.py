"""Whatever ncu prints, there is an error to raise, a note to quote and a percentage to show, in time and of a size."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.engines import failures, ncu
from ncu_swizzle.engines import ncu as progress_
from ncu_swizzle.engines.failures import MachineState
from ncu_swizzle.engines.settings import Done
from tests.support.corpus import hostile
from tests.support.properties import chances, examples, holds

LINES = (
    "==ERROR== ", "==WARNING== ", "==PROF== Profiling ", "The user does not have permission", "ERR_NVGPUCTRPERM",
    "No kernels were profiled.",
    "Driver resource was unavailable", "Failed to connect", '"k" - 0: 0%....50%', "100% - 6 passes", "{0} {name}",
    "%s", "error code: ",
)  # fmt: skip
LONGEST = 100_000  # characters of a message, whatever was printed


def printed(chance: Random) -> str:
    """Return an output made of what ncu prints and of what it should not."""
    parts = [chance.choice((*LINES, *hostile.TEXTS, "\n", "\n", "9" * 5000)) for _ in range(chance.randrange(1, 12))]
    return "".join(parts) * chance.choice((1, 1, 1, 200))


@examples
def test_every_failure_has_an_error_of_a_size(examples: int) -> None:
    def check(chance: Random, status: int, free_bytes: int | None) -> None:
        log = printed(chance)
        error = ncu.diagnose(log, status, MachineState(free_bytes=free_bytes))
        assert isinstance(error, NcuSwizzleError)
        assert 0 < len(str(error)) < LONGEST
        assert all(len(note) <= ncu.LONGEST_NOTE + 1 for note in ncu.notes(log))
        ncu.busy(log)

    holds(examples, check, chances, st.integers(-64, 255), st.sampled_from([None, 0]))


@examples
def test_every_failure_s_pattern_ends_in_time(examples: int) -> None:
    def check(part: str, count: int) -> None:
        log = failures.Log.of(part * count)
        for failure in failures.FAILURES:
            failure.match(log)

    parts = st.sampled_from(LINES) | st.text(alphabet="=ERORWANIGPF \n\"'.:(", min_size=1, max_size=6)
    holds(examples // 3, check, parts, st.sampled_from([1, 100, 5000]))


@examples
def test_progress_is_a_fraction_however_its_output_arrives(examples: int) -> None:
    def check(chance: Random, launches: int) -> None:
        seen: list[Done] = []
        progress = progress_.Progress(seen.append, launches)
        rest = printed(chance)
        while rest:
            size = chance.randrange(1, 4000)
            progress.feed(rest[:size])
            rest = rest[size:]
        assert all(0 <= done.fraction <= 1 for done in seen)

    holds(examples // 3, check, chances, st.integers(1, 32))
