"""`python -m rl.scorer`: the same program as `scorer_server_without_ray.py`."""

import sys

from rl.scorer.options import main

sys.exit(main())
