"""Reading, running and comparing SQL: everything a worker process does. Standard library only."""
