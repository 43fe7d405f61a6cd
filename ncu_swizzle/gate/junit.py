"""A verdict as JUnit XML: a suite per kernel, a test case per check. Inconclusive is an error, never a pass."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ncu_swizzle.gate.verdict import Check, Outcome, Verdict
from ncu_swizzle.texts import one_line

KINDS = {Outcome.failed: "failure", Outcome.inconclusive: "error", Outcome.error: "error"}


def render(verdict: Verdict) -> str:
    """Return the XML document; characters that XML cannot represent become U+FFFD."""
    root = Element("testsuites", {"name": "ncu-swizzle check", **_counts(verdict.checks)})
    for kernel in dict.fromkeys(check.kernel for check in verdict.checks):
        checks = tuple(check for check in verdict.checks if check.kernel == kernel)
        suite = _element(root, "testsuite", {"name": kernel, **_counts(checks)})
        for check in checks:
            _case(suite, check)
    indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _counts(checks: tuple[Check, ...]) -> dict[str, str]:
    outcomes = [check.outcome for check in checks]
    return {
        "tests": str(len(outcomes)),
        "failures": str(outcomes.count(Outcome.failed)),
        "errors": str(outcomes.count(Outcome.inconclusive) + outcomes.count(Outcome.error)),
    }


def _case(suite: Element, check: Check) -> None:
    where = {"file": check.place.file, "line": str(check.place.line)} if check.place else {}
    name = f"{check.criterion}, {check.access}" if check.access else check.criterion
    case = _element(suite, "testcase", {"classname": check.kernel, "name": name, **where})
    if kind := KINDS.get(check.outcome):
        result = _element(case, kind, {"type": check.criterion, "message": str(check)})
        result.text = "\n".join(
            one_line(part) for part in (check.place.in_full if check.place else "", check.hint) if part
        )
    else:
        _element(case, "system-out").text = one_line(str(check))


def _element(parent: Element, name: str, attributes: Mapping[str, str] = MappingProxyType({})) -> Element:
    return SubElement(parent, name, {key: one_line(value) for key, value in attributes.items()})
