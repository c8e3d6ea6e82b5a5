"""Time limits that depend on each other, in seconds: whoever waits allows more time than what it waits for takes."""

# From a worker's or a fork server's start until it is ready, and from a scorer server's start until it serves: its fork
# server comes first, then all workers at the same time.
WORKER_START_S = 60
SERVER_START_S = 2 * WORKER_START_S

# A request: in the server, which then answers that it is busy (request_seconds), and in the client
# (reward_kwargs.timeout).
REQUEST_S = 120
CLIENT_REQUEST_S = REQUEST_S + 60

# The longest pause between two attempts: to restart a server, to ask a server that failed or, as it says, is busy.
LONGEST_PAUSE_S = 30
# A client's attempts after the first that failed: with pauses that grow to the longest about 90 s, in which a server
# that ended is restarted.
RETRIES = 8
# How long a client waits for servers that are healthy and say that they are busy.
BUSY_LIMIT_S = 1800

# PostgreSQL: to connect, to name a database, and both in the server.
CONNECT_S = 10
IDENTIFY_S = 5
FIND_DATABASE_S = CONNECT_S + IDENTIFY_S

# Between SIGTERM and SIGKILL: the command, the other nodes' last words, the launcher, which waits for both, and the
# other nodes, which wait for the head's.
COMMAND_GRACE_S = 15
LAST_WORDS_S = 8
LAUNCHER_GRACE_S = COMMAND_GRACE_S + LAST_WORDS_S + 2
HEAD_END_S = LAUNCHER_GRACE_S + 5
