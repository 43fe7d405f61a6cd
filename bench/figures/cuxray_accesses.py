"""cuxray's answer for each shared-memory access of a cubin. cuxray.py runs it in cuxray's own environment.

    python cuxray_accesses.py NVDISASM CUBIN X,Y,Z

prints ``{function: {address: degree, or null if not analysed}}`` as JSON.

"""

import json
import subprocess
import sys

from cuxray.analyze.access import analyze_accesses
from cuxray.parse import sass


def main() -> None:
    nvdisasm, cubin, dims = sys.argv[1:]
    text = subprocess.run([nvdisasm, "-c", "-gi", cubin], capture_output=True, text=True, check=True).stdout
    functions = {}
    for name, function in sass.parse_gi(text).functions.items():
        answer = analyze_accesses(function, tuple(int(size) for size in dims.split(",")))
        analysed = {each["addr"]: each["conflict_ways"] for each in answer["accesses"] if each["space"] == "shared"}
        silent = {each["addr"]: None for each in answer["unanalyzed"]}
        functions[name] = {str(address): ways for address, ways in {**silent, **analysed}.items()}
    json.dump(functions, sys.stdout)


if __name__ == "__main__":
    main()
