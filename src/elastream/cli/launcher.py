"""The file that ``spark-submit`` runs in place of a program: ``elastream run`` in its driver.

``spark-submit "$(elastream run --launcher)" OPTIONS -- app.py ARGUMENTS``. Python puts the folder
of this file first on ``sys.path``, where a module such as ``log`` would hide another one of that
name; the interpreter's folder replaces it.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(sys.executable).parent)
    from elastream.cli.main import main

    sys.exit(main(["run", *sys.argv[1:]]))
