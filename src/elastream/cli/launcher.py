"""What ``spark-submit`` runs in place of a program: ``elastream run`` in the driver it has started.

``spark-submit "$(elastream run --launcher)" OPTIONS -- app.py ARGUMENTS``. Python puts the folder
of this file first among the places of modules, where some of ours have names of others' (``trace``,
``log``): that of the interpreter takes its place, as for the command itself.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(sys.executable).parent)
    from elastream.cli.main import main

    sys.exit(main(["run", *sys.argv[1:]]))
