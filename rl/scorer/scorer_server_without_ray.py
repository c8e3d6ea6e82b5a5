"""Start the scorer server: python rl/scorer/scorer_server_without_ray.py -c ./rl/scorer/sql.yaml"""

import os
import sys

_HERE = os.path.dirname(os.path.realpath(__file__))
if sys.path and os.path.realpath(sys.path[0]) == _HERE:
    # Run as a file: Python looks here first, and would take math/ for the standard module. A checkout need not be
    # installed.
    sys.path[0] = os.path.dirname(os.path.dirname(_HERE))

from rl.scorer.options import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
