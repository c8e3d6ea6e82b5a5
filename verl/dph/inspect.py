"""`python -m verl.dph.inspect FILE ...`: see rl.data.inspect.command."""

import sys

from rl.data.inspect.command import main

if __name__ == "__main__":
    sys.exit(main())
