"""Many points over many workers: processes of this machine, one per GPU of it, or the workers of a Dask cluster that
runs already. Without any of these the same work is done here, point by point, and Dask is not imported.

    options → crew (this process, or workers) → dispatch (client's side) ⇄ worker_side

A worker runs only what this process names, and only if it has this very ncu-swizzle (`identity`). Of a user's files it
gets those that it lacks (`shipment`).
"""
