"""A verdict as JUnit XML: a suite per kernel, a test case per check. Inconclusive is an error, never a pass."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ncu_swizzle.gate.verdict import Check, Outcome, Verdict
from ncu_swizzle.texts import one_line

KINDS = {Outcome.failed: "failure", Outcome.inconclusive: "error"}


def render(verdict: Verdict) -> str:
    """Return the XML document; characters that XML cannot represent become spaces."""
    root = Element("testsuites", {"name": "ncu-swizzle check", **_counts(verdict.checks)})
    for kernel in dict.fromkeys(check.kernel for check in verdict.checks):
        checks = tuple(check for check in verdict.checks if check.kernel == kernel)
        suite = SubElement(root, "testsuite", {"name": one_line(kernel), **_counts(checks)})
        for check in checks:
            _case(suite, check)
    indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _counts(checks: tuple[Check, ...]) -> dict[str, str]:
    outcomes = [check.outcome for check in checks]
    return {
        "tests": str(len(outcomes)),
        "failures": str(outcomes.count(Outcome.failed)),
        "errors": str(outcomes.count(Outcome.inconclusive)),
    }


def _case(suite: Element, check: Check) -> None:
    where = {"file": one_line(check.place.file), "line": str(check.place.line)} if check.place else {}
    name = f"{check.criterion}, {check.access}" if check.access else check.criterion
    case = SubElement(suite, "testcase", {"classname": one_line(check.kernel), "name": one_line(name), **where})
    message = one_line(str(check))
    if kind := KINDS.get(check.outcome):
        result = SubElement(case, kind, type=check.criterion, message=message)
        result.text = "\n".join(one_line(part) for part in (str(check.place or ""), check.hint) if part)
    else:
        SubElement(case, "system-out").text = message
