"""`explain` for kernels of one's own: sources, projects, cubins, saved runs and reports."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import ncu_swizzle
from ncu_swizzle.base.errors import UsageError
from tests.support.marks import NEEDS_ALL
from tests.support.places import DATA, ROOT
from tests.support.process import Command
from tests.support.tiles import LAUNCHES

ODD = ("odd.cu", "-D", "PITCH=24", *LAUNCHES["odd.cu"], "--config", "none")
PYTHON = {"grid": "1", "block": "128", "args": ["float32[2048]:random", "float32[2048]:out"]}

PREDICT, SUGGEST, BANKS = (("explain", "--show", part) for part in ("wavefronts", "mapping", "map"))

pytestmark = pytest.mark.usefixtures("own_tiles")


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.parametrize(
    ("source", "degree", "mapping"),
    [
        ("half.cu", "32.00*", "Swizzle<5,1,5> on elements of 2 bytes (offset ^ ((offset >> 5) & 0x3e))"),
        ("double.cu", "16.00*", "Swizzle<4,0,5> on elements of 8 bytes (offset ^ ((offset >> 5) & 0xf))"),
        ("wide.cu", "8.00*", "Swizzle<3,0,4> on elements of 16 bytes (offset ^ ((offset >> 4) & 0x7))"),
    ],
)
def test_every_command_names_the_same_mapping_for_a_source(
    source: str, degree: str, mapping: str, command: Command
) -> None:
    own = (source, *LAUNCHES[source], "--config", "none")
    predicted = command(*PREDICT, *own)
    assert predicted.returncode == 0, predicted.stderr
    assert [line.split()[-1] for line in predicted.stdout.splitlines() if "ld.shared" in line][-1] == degree
    said = {
        "suggest": command(*SUGGEST, *own).stdout,
        "banks": command(*BANKS, *own).stdout,
        "lint": command("lint", *own).stdout,
        "profile": command("profile", *own, "--engine", "emulated").stdout,
    }
    for name, printed in said.items():
        assert mapping in " ".join(printed.split()), name
    swizzle, _, size = mapping.partition("<")[2].partition(">")
    tried = command(*PREDICT, *own, "--swizzle", swizzle, "--elem", size.split()[3])
    assert "*" not in "".join(line for line in tried.stdout.splitlines() if ".shared." in line)


@pytest.mark.long
@NEEDS_ALL
def test_a_swizzle_that_does_not_fit_the_rows_is_counted(command: Command) -> None:
    own = ("wide.cu", *LAUNCHES["wide.cu"])
    for unit in (("3,4,3", "1"), ("3,0,3", "16")):
        tried = command(*PREDICT, *own, "--swizzle", unit[0], "--elem", unit[1])
        assert tried.stdout.splitlines()[3].split()[-3:] == ["128", "64", "2.00*"]
    assert command(*PREDICT, *own, "--pad", "1").stdout.splitlines()[3].split()[-3:] == ["64", "64", "1.00"]


@pytest.mark.long
@NEEDS_ALL
def test_rows_that_no_power_of_two_divides_are_padded(command: Command) -> None:
    plain = command(*SUGGEST, *ODD, "--json", "-")
    (answer,) = json.loads(plain.stdout)["mapping"]
    assert answer["plain"]["wavefronts"] - answer["plain"]["ideal"] == 24 * 7
    assert "padding 24+1" in [candidate["mapping"] for candidate in answer["clean"]]
    assert all(candidate["wavefronts"] == candidate["ideal"] for candidate in answer["clean"])
    drawn = command(*BANKS, *ODD, "--pad", "1", "--json", "-")
    before, after = json.loads(drawn.stdout)["map"]
    assert before["layout"] == "(32,24):(24,1)"
    assert (before["counts"]["excessive"], after["counts"]["excessive"]) == (24 * 7, 0)
    assert after["spelled"] == "padding 24+1 on elements of 4 bytes (offset + offset / 24)"


@pytest.mark.long
@NEEDS_ALL
def test_before_and_after_are_drawn_and_counted_side_by_side(command: Command) -> None:
    own = ("odd.cu", *LAUNCHES["odd.cu"], "--config", "none", "--before", "-DPITCH=24", "--after", "-DPITCH=25")
    before, after = json.loads(command(*PREDICT, *own, "--json", "-").stdout)["wavefronts"]
    assert [sum(row["excessive"] for row in each["accesses"]) for each in (before, after)] == [24 * 7, 0]
    drawn = json.loads(command(*BANKS, *own, "--json", "-").stdout)["map"]
    assert [each["counts"]["excessive"] for each in drawn] == [24 * 7, 0]


@pytest.mark.long
@NEEDS_ALL
def test_a_project_s_kernels_and_their_variants(command: Command) -> None:
    assert "Use Swizzle<5,1,5> on elements of 2 bytes" in command(*SUGGEST, "half").stdout
    assert "8.00*" in command(*PREDICT, "odd-plain").stdout
    assert "8.00*" not in command(*PREDICT, "odd-padded").stdout
    assert "conflict-free" in command(*BANKS, "odd-padded").stdout
    titles = [each["title"] for each in json.loads(command(*PREDICT, "odd.cu", "--json", "-").stdout)["wavefronts"]]
    assert titles == ["odd-plain", "odd-padded"]
    assert "did you mean 'odd-plain'" in command(*SUGGEST, "odd-plane").stderr


@pytest.mark.long
@NEEDS_ALL
def test_a_cubin_alone_is_enough(own_tiles: Path, command: Command) -> None:
    run = ncu_swizzle.profile("wide.cu", engine="emulated", config="none", export="run", **PYTHON)
    (own_tiles / "alone").mkdir()
    (own_tiles / "alone" / "k.cubin").write_bytes((own_tiles / "run" / run.profile.report).read_bytes())
    said = command(*SUGGEST, "alone/k.cubin", *LAUNCHES["wide.cu"])
    assert said.returncode == 0, said.stderr
    assert "Use Swizzle<3,0,4> on elements of 16 bytes" in said.stdout
    assert "8.00*" in command(*PREDICT, "alone/k.cubin", *LAUNCHES["wide.cu"]).stdout


@pytest.mark.long
@NEEDS_ALL
def test_an_emulated_run_holds_its_addresses(own_tiles: Path, command: Command) -> None:
    ncu_swizzle.profile("wide.cu", engine="emulated", config="none", export="run", **PYTHON)
    for file in own_tiles.glob("*.cu"):
        file.unlink()
    for saved in ("run", "run/wide_rows.json"):
        assert "Use Swizzle<3,0,4> on elements of 16 bytes" in command(*SUGGEST, saved).stdout
        assert "8.00*" in command(*PREDICT, saved).stdout
        assert "448 excessive" in " ".join(command(*BANKS, saved).stdout.split())
    page = (own_tiles / "run" / "report.html").read_text(encoding="utf-8")
    assert "suggested: (32,16):(16,1) with Swizzle&lt;3,0,4&gt; on elements of 16 bytes" in page


@pytest.mark.parametrize("part", [[], ["--show", "mapping"]])
def test_a_report_has_no_addresses_and_the_command_that_computes_them_works(part: list[str], command: Command) -> None:
    report = ROOT / "recordings" / "h100" / "transpose" / "transpose-plain.ncu-rep"
    done = command("explain", *part, str(report))
    assert done.returncode == 2
    assert "no addresses: ncu does not record them" in done.stderr
    typed = shlex.split(done.stderr.partition("computes them: ncu-swizzle ")[2])
    assert typed == ["explain", "transpose-plain", "--problem", "n=4096", *part]
    assert command(*typed).returncode == 0
    done = command("explain", *part, str(DATA / "programs" / "several.ncu-rep"))
    assert "--grid 16,16,1 --block 32,8,1" in done.stderr


@pytest.mark.long
@NEEDS_ALL
def test_python_functions_take_own_kernels() -> None:
    (answer,) = ncu_swizzle.predict("wide.cu", config="none", **PYTHON)
    assert [row.degree for row in answer.predictions] == [1, 8]
    (suggested,) = ncu_swizzle.suggest("wide.cu", config="none", **PYTHON)
    assert str(suggested.chosen.mapping.transform) == "Swizzle<3,0,4>"
    before, after = ncu_swizzle.banks("wide.cu", config="none", **PYTHON)
    assert (before.conflicts, after.conflicts) == (True, False)
    assert len(ncu_swizzle.banks("(8,8):(1,8)", swizzle="3,2,3")) == 2
    assert len(ncu_swizzle.suggest("(32,32):(32,1)", writes="row", reads="column")) == 1
    with pytest.raises(UsageError, match="unknown option 'gird'"):
        ncu_swizzle.suggest("wide.cu", gird=1)


@pytest.mark.long
@NEEDS_ALL
def test_accesses_at_unknown_addresses_are_named_wherever_a_mapping_is(command: Command) -> None:
    own = ("gather.cu", *LAUNCHES["gather.cu"])
    said = command(*SUGGEST, *own).stdout
    assert "as far as the addresses are known." in " ".join(said.split())
    assert "Not tried on LDS at gather.cu:6: unknown addresses." in said
    assert "data loaded from global memory" in " ".join(said.split())
    assert "1 access with unknown addresses could not be tried" in command("lint", *own).stdout
    predicted = command(*PREDICT, *own).stdout
    assert [line.split()[-4:-1] for line in predicted.splitlines() if "gather.cu:6" in line] == [
        ["1", "unknown", "unknown"]
    ]


@pytest.mark.long
@NEEDS_ALL
def test_kernels_without_conflicts_or_without_shared_memory_say_so(command: Command) -> None:
    clean = command(*SUGGEST, "clean.cu", *LAUNCHES["clean.cu"])
    assert "Every one of these accesses is already conflict-free." in clean.stdout
    for part in ([], ["--show", "mapping"]):
        unshared = command("explain", *part, "unshared.cu", *LAUNCHES["unshared.cu"])
        assert unshared.returncode == 2
        assert "unshared does not access shared memory" in unshared.stderr


def test_options_of_a_kernel_are_refused_for_anything_else(command: Command) -> None:
    for words in (("(8,8):(8,1)", "--read", "row"), ("(8,8):(8,1)",), ("tid", "--op", "ld.shared.b32"), ("box(8,64)",)):
        done = command("explain", *words, "--grid", "4")
        assert done.returncode == 2
        assert "--grid describes a .cu file" in done.stderr
