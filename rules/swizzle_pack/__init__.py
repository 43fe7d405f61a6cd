"""ncu-swizzle's shared-memory rules: decisions over plain data, and a frontend that reports them to ncu.

The rule files beside this folder are thin shells around it. It needs only Python's standard library (and NvRules inside
ncu), so that both Nsight Compute and ncu-swizzle run it and give the same findings for the same launch.

    facts       what a report says about a launch, read from ncu's action or supplied by ncu-swizzle
    finding     what a rule reports
    excess, phantom, partial, advice, cost, stalls      one decision each: facts -> findings
    rules       the decisions by rule name
    frontend    findings -> ncu
"""
