"""Files and folders that are still being written: their names say so, and a lock says whether anybody still writes.
What a killed process left is removed by the next one that writes to the same folder.
"""
