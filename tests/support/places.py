"""Where the tests' inputs are."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
PROGRAMS = DATA / "programs"
STRESS = DATA / "stress"
RECORDED_STRESS = STRESS / "recorded" / "stress.ncu-rep.xz"
RECORDINGS = ROOT / "recordings" / "h100"
