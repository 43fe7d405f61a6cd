"""What ncu-swizzle's rules know about shared memory: decisions over plain data, and how ncu is told of them.

The rules beside this folder are shells around it. It uses Python's standard library alone (and NvRules, inside ncu),
so that Nsight Compute can run it, and ncu-swizzle too: both say the same of the same launch.

    facts       what is known of a launch, read from ncu's action or given by ncu-swizzle
    finding     what a rule says
    excess, phantom, partial, advice, cost, stalls      one decision each: facts -> findings
    rules       the decisions by the rules' names
    frontend    findings -> ncu
"""
