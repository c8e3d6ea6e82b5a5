"""`python -m rl.scorer.audit`: the same program as `dph audit`."""

import sys

from rl.scorer.audit.options import main

sys.exit(main())
