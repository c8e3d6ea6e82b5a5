"""Time limits that depend on each other, in seconds: a waiting program allows more time than the work may take."""

# Until a started worker or fork server is ready, and until a started scorer server serves: the server starts its fork
# server first, then all workers at once.
WORKER_START_S = 60
SERVER_START_S = 2 * WORKER_START_S

# A request: after this time the server answers that it is busy (request_seconds), and the client gives up
# (reward_kwargs.timeout).
REQUEST_S = 120
CLIENT_REQUEST_S = REQUEST_S + 60

# The longest pause before a server is restarted, or a server that failed or is busy is asked again.
LONGEST_PAUSE_S = 30
# A client's attempts after the first failure. With their growing pauses they take about 90 s, time enough to restart a
# server.
RETRIES = 8
# How long a client waits for healthy servers that are busy.
BUSY_LIMIT_S = 1800

# PostgreSQL: to connect, to name a database, and for both in the server.
CONNECT_S = 10
IDENTIFY_S = 5
FIND_DATABASE_S = CONNECT_S + IDENTIFY_S

# Between the signal that ends a command and SIGKILL.
COMMAND_GRACE_S = 15
