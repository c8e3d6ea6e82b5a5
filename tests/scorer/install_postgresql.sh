#!/usr/bin/env bash
# Installs Debian's PostgreSQL, without a running server, for tests/scorer/sql/test_engines.py, which starts its own.
# Does nothing where there is one; where it cannot be installed, those tests are skipped.
set -euo pipefail

compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null || command -v initdb >/dev/null && exit 0

without() {
  echo "Warning: $1, so the tests of PostgreSQL are skipped; install it (Debian: apt-get install postgresql)." >&2
  exit 0
}

as_root=()
if [[ $EUID -ne 0 ]]; then
  as_root=(sudo -n)
fi
if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
  without "PostgreSQL cannot be installed from here"
fi
# Debian's package makes a cluster and starts it, unless it is told not to.
settings=/etc/postgresql-common/createcluster.d
"${as_root[@]}" mkdir -p "$settings"
echo "create_main_cluster = false" | "${as_root[@]}" tee "$settings/dph-rl-tests.conf" >/dev/null
trap '"${as_root[@]}" rm -f "$settings/dph-rl-tests.conf"' EXIT
"${as_root[@]}" apt-get -o Acquire::Retries=3 update -qq || without "apt-get update failed"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 install -qq -y --no-install-recommends postgresql >/dev/null ||
  without "apt-get install failed"
