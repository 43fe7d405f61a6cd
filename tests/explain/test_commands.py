"""`explain` as a command: 80 columns, exit codes, data, what mistakes lead to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.articles import PLAIN_001, SWIZZLED_001
from tests.support.places import ROOT
from tests.support.process import Command

ARTICLE_001 = ("explain", "(8,8):(1,8)", "--elem", "4", "--swizzle", "3,2,3")


def cells(line: str) -> list[str]:
    return [cell.rstrip("*") for cell in line.split()[1:9]]


def test_banks_prints_the_maps_of_article_001(command: Command) -> None:
    done = command(*ARTICLE_001)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line[:1] == "r" and line[1:2].isdigit()]
    assert [cells(row) for row in rows] == [line.split() for line in (PLAIN_001 + SWIZZLED_001).split("\n") if line]
    assert all(row.count("*") == 8 and row.endswith("2/1") for row in rows[:8]), "marks, not only colours"
    assert all("*" not in row and row.endswith("1/1") for row in rows[8:])
    assert "16 wavefronts, 8 ideal: 8 excessive" in done.stdout
    assert "8 wavefronts, 8 ideal: conflict-free" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["(64,64):(64,1)", "--elem", "2", "--swizzle", "128B", "--access", "ldmatrix"], "Rows 8 to 63 repeat these 8"),
        (["(32,32):(32,1)", "--pad", "1", "--access", "column"], "0 to 9 and A to V stand for banks 0 to 31"),
        (["(64,64):(64,1)", "--access", "none"], "32 more columns"),
        (["(8,8):(8,1)", "--swizzle", "and:3,0,3"], "Not a bijection: cells (0, 0) and (0, 1) both land at element 0"),
        (["(8,8):(8,1)", "--swizzle", "bytes:3,2,3", "--show", "bits"], "SSSTTT--"),
        (["(8,8):(8,1)", "--swizzle", "bytes:3,2,3", "--show", "bits", "--row", "2"], "01010100"),
        (["(8,8):(8,1)", "--swizzle", "bytes:3,2,3", "--show", "places"], "3 2 1 0 7 6 5 4"),
        (["(32,32):(32,1)", "--pad", "1", "--show", "places"], "after"),
        (["(16,64):(64,1)", "--elem", "2", "--access", "ldmatrix", "--show", "phases"], "8-15"),
        (["(4,4):(4,1)", "--swizzle", "2,0,2", "--banks", "4", "--access", "column"], "of 4 banks"),
        (["(4,4):(4,1)", "--swizzle", "sudoku", "--banks", "4", "--access", "column"], "B03   B02   B00   B01"),
        (["kernel2", "--show", "map"], "kernel1 → kernel2, Q, K, V and O: K out"),
        (["transpose-plain", "--show", "map"], "1,024 wavefronts"),
        (["transpose-xor", "--show", "map", "--access", "rows in"], "rows in: 32 requests"),
        (["xor"], "3 2 1 0 | 7 6 5 4"),
        (["sudoku"], "2 3 | 1 0"),
        (["phases"], "4 x 8 lanes on 8 banks of 16 bytes"),
        (["m16n8k8"], "31:a2,3"),
        (["m16n8k16"], "31:a6,7"),
    ],
)
def test_everything_fits_80_columns(arguments: list[str], said: str, command: Command) -> None:
    done = command("explain", *arguments)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_banks_as_data_and_as_files(command: Command, tmp_path: Path) -> None:
    done = command(*ARTICLE_001, "--json", "-", "--html", "map.html", "--svg", "map.svg")
    before, after = json.loads(done.stdout)["map"]
    assert before["counts"] == {"requests": 8, "known": True, "actual": 16, "ideal": 8, "excessive": 8}
    assert after["counts"]["excessive"] == 0
    assert after["banks"][4] == [4, 12, 20, 28, 0, 8, 16, 24]
    assert (after["transform"], after["tma"], after["bijection"]) == ("Swizzle<3,2,3>", "128B", True)
    assert "Bank map of (8,8):(1,8)" in (tmp_path / "map.html").read_text(encoding="utf-8")
    assert (tmp_path / "map.svg").read_text(encoding="utf-8").startswith("<svg")


def test_predict_a_kernel_beside_its_recording(command: Command) -> None:
    done = command("explain", "transpose-plain", "--show", "wavefronts")
    assert done.returncode == 0, done.stderr
    assert "recorded on NVIDIA H100" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    found = json.loads(command("explain", "transpose-plain", "--json", "-").stdout)["wavefronts"][0]
    assert found["agrees"]
    by_access = {row["access"]: row for row in found["counted"]}
    assert by_access["LDS"]["wavefronts"] == by_access["LDS"]["counted"] == 16_777_216
    (small,) = json.loads(command("explain", "transpose-plain", "--problem", "n=64", "--json", "-").stdout)[
        "wavefronts"
    ]
    assert small["counted"] == []
    assert "not compared" in small["origin"]


@pytest.mark.long
def test_predict_beside_a_saved_profile(command: Command) -> None:
    command("profile", "transpose-xor", "--reference", "none", "--baseline", "none", "-o", "run")
    done = command("explain", "transpose-xor", "--profile", "run/transpose-xor.json", "--json", "-")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["wavefronts"]
    assert found["agrees"]
    assert found["origin"] == "run/transpose-xor.json"
    other = command("explain", "transpose-plain", "--profile", "run/transpose-xor.json", "--json", "-")
    assert not json.loads(other.stdout)["wavefronts"][0]["agrees"]


def test_predict_patterns(command: Command, tmp_path: Path) -> None:
    layout = command("explain", "(64,64):(64,1)", "--elem", "2", "--read", "ldmatrix", "--json", "-")
    assert json.loads(layout.stdout)["wavefronts"][0]["accesses"][0]["excessive"] == 448
    expression = command(*("explain", "tid * 128", "--op", "ld.shared.b32", "--active", "lane < 8", "--json", "-"))
    assert json.loads(expression.stdout)["wavefronts"][0]["accesses"][0]["wavefronts"] == 8
    linear = command("explain", "tid * 256", "--op", "st.shared.v2.b32").stdout
    assert "rank 4) and 2^0 of their banks (rank 0), so 16 units share each bank" in " ".join(linear.split())
    (tmp_path / "lanes.csv").write_text(",".join(str(128 * i) for i in range(32)) + "\n")
    file = command("explain", "lanes.csv", "--op", "st.shared.b32", "--json", "-")
    assert json.loads(file.stdout)["wavefronts"][0]["accesses"][0]["wavefronts"] == 32


def test_the_library_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    exec(compile(code, "docs/model.md", "exec"), {})
    said = [line.split("# ")[1] for line in code.splitlines() if "# " in line]
    assert capsys.readouterr().out.splitlines() == said


def test_suggest_prints_code_to_paste(command: Command) -> None:
    tile = ("explain", "--show", "mapping", "(64,64):(64,1)", "--elem", "2", "--write", "rows:16", "--read", "ldmatrix")
    done = command(*tile)
    assert done.returncode == 0, done.stderr
    assert "Use Swizzle<3,3,3> on elements of 2 bytes (offset ^ ((offset >> 3) & 0x38))." in done.stdout
    assert "(offset ^ ((offset >> 3) & 0x38)) * 2" in done.stdout
    assert "cute::composition(cute::Swizzle<3,3,3>{}, Plain{})" in done.stdout
    tables = done.stdout.split("\nCUDA\n")[0]
    assert max(map(len, tables.splitlines())) <= 80
    only = command(*tile, "--code", "cuda").stdout
    assert "struct Tile" in only
    assert "cute::" not in only
    found = json.loads(command(*tile, "--json", "-").stdout)["mapping"]
    assert found[0]["clean"][0]["mapping"] == "Swizzle<3,3,3>"
    assert found[0]["plain"]["wavefronts"] == 576


def test_suggest_for_a_kernel_and_where_it_is_impossible(command: Command) -> None:
    kernel = command("explain", "transpose-plain", "--show", "mapping")
    assert "Use Swizzle<5,0,5> on elements of 4 bytes (offset ^ ((offset >> 5) & 0x1f))." in kernel.stdout
    assert "static __device__ constexpr int bytes(int rows)" in kernel.stdout
    impossible = command("explain", "--show", "mapping", "(32,32):(32,1)", "--write", "rows:16", "--read", "column")
    assert impossible.returncode == 0, "an answer, not a failure"
    assert "Impossible within these constraints" in impossible.stdout
    assert "Without rows:16, Swizzle<5,0,5> on elements of 4 bytes (offset ^ ((offset >> 5) & 0x1f)) works." in (
        " ".join(impossible.stdout.split())
    )


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (["nothing"], "unknown kernel 'nothing'", "ncu-swizzle list"),
        (["8x8"], "is not a layout, a kernel or a picture", '"(8,8):(1,8)"'),
        (["(8,8):(1"], "is not a valid layout", "(64,64):(64,1)"),
        (["(8,8,8):(1,8,64)"], "rows and columns", "(64,64):(64,1)"),
        (["(8,8):(1,8)", "--elem", "3"], "an element cannot have 3 bytes", "--elem 1, 2, 4"),
        (["(8,8):(1,8)", "--swizzle", "3,2,3", "--pad", "1"], "padding together", "only one of them"),
        (["(8,8):(1,8)", "--access", "diagonal"], "'diagonal' is not a valid access", "ldmatrix"),
        (["(8,8):(1,8)", "--show", "bits", "--row", "9"], "there is no row 9", "--row 0 to 7"),
        (["(8,8):(1,8)", "--show", "phases", "--access", "none"], "needs an access", "--access row"),
        (["(8,8):(1,8)", "--show", "phases", "--request", "8"], "no request 8", "--request 0 to 7"),
        (["xor", "--svg", "x.svg"], "on the terminal only", "--svg"),
        (["--show", "map", "kernel1", "--access", "nothing"], "has no access 'nothing'", "'K out'"),
        (["(8,8):(1,8)", "--svg", "/proc/x.svg"], "cannot write /proc/x.svg", "--html"),
        (["(8,8)"], "'(8,8)' is not a valid layout: write shape:stride", "(64,64):(64,1)"),
        (["--show", "wavefronts", "kernl1"], "unknown kernel 'kernl1', did you mean 'kernel1'?", "ncu-swizzle list"),
        (["--show", "wavefronts", "tid*4"], "is not a layout, a kernel or a picture", "--op"),
        (["--show", "wavefronts", "tid*4", "--op", "ld.shared.b33"], "did you mean 'ld.shared.b32'", "one of"),
        (["--show", "wavefronts", "tid*3", "--op", "ld.shared.b32"], "faults at address 3", "multiple of 4"),
        (["--show", "wavefronts", "(8,8):(1,8)"], "a layout alone", "--read column"),
        (["--show", "wavefronts", "none.csv"], "none.csv does not exist", "CSV"),
        (["--show", "wavefronts", "reference-attention"], "library kernel", "another kernel"),
        (["--show", "wavefronts", "kernel1", "--profile", "no.json"], "no.json does not exist", "ls swizzle-out"),
        (["--show", "mapping", "(8,8):(1,8)"], "no access to the tile", "--write rows:16"),
        (["--show", "mapping", "kernel1", "--read", "row"], "are already known", "--write and --read"),
        (["--show", "mapping", "(32,33):(33,1)", "--read", "rows:16"], "not a multiple of 16 bytes", "row"),
        (["--show", "mapping", "(8,8):(1,8)", "--read", "row", "--arch", "sm_1"], "'sm_1'", "sm_90"),
    ],
)
def test_mistakes_say_what_to_type_next(
    arguments: list[str], said: str, hint: str, command: Command, tmp_path: Path
) -> None:
    done = command("explain", *arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []
