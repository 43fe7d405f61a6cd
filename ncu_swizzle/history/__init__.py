"""Which commit brought a conflict. Found without a GPU: wavefronts are computed from the sources of each commit.

commits (what git holds) → counted (one commit) → bisect (between a good and a bad one)
"""
