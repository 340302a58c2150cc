"""``python -m elastream_lab.fuzz COUNT [SEED [PROCESSES]]``: damage and read this many inputs.

Prints how many of each kind were read, and every finding with what brings it back; ends with 1
where there is one.
"""

from __future__ import annotations

import sys

from elastream_lab.fuzz.many import read_many, tell

if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:]]
    count, seed, processes = (*given, *(1000, 1, 2)[len(given) :])
    readings = read_many(count, seed, processes, lambda finding: print(finding, flush=True))
    tell(readings)
    sys.exit(1 if readings.findings else 0)
