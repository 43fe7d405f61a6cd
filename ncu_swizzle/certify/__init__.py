"""Whether a change of layouts keeps what a kernel computes: translation validation of its unoptimised PTX.

Nothing here knows how the change was found. `checker.certify` takes the PTX of two versions of a kernel and says
*proved*, *refuted* with a counterexample, or *not proved* with the line and the reason; `units` compiles two versions
of a source, and judges everything that is compiled from the changed text. docs/proof.md defines the words.
"""
