"""Conflicts beside the source, in editors that speak the Language Server Protocol. The only room that imports pygls."""
