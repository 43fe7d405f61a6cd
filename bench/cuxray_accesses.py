"""What cuxray says of each shared-memory access of a cubin: run by bench/cuxray.py, in cuxray's own environment.

    python cuxray_accesses.py NVDISASM CUBIN X,Y,Z

prints ``{function: {address: degree, or null where it was not analysed}}`` as JSON.
"""

import json
import subprocess
import sys

from cuxray.analyze.access import analyze_accesses
from cuxray.parse import sass


def main() -> None:
    nvdisasm, cubin, dims = sys.argv[1:]
    text = subprocess.run([nvdisasm, "-c", "-gi", cubin], capture_output=True, text=True, check=True).stdout
    found = {}
    for name, function in sass.parse_gi(text).functions.items():
        answer = analyze_accesses(function, tuple(int(size) for size in dims.split(",")))
        said = {one["addr"]: one["conflict_ways"] for one in answer["accesses"] if one["space"] == "shared"}
        silent = {one["addr"]: None for one in answer["unanalyzed"]}
        found[name] = {str(address): ways for address, ways in {**silent, **said}.items()}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
