#!/usr/bin/env bash
# Installs Debian's Chromium, which tests/browser looks at the report in; does nothing where it is on the PATH.
set -euo pipefail

command -v chromium >/dev/null && exit 0

as_root=()
if [[ $EUID -ne 0 ]]; then
  as_root=(sudo -n)
fi
if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
  echo "Error: Chromium is not on the PATH and cannot be installed from here; install it (Debian: apt-get install chromium)." >&2
  exit 1
fi
"${as_root[@]}" apt-get -o Acquire::Retries=3 update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 install -qq -y --no-install-recommends chromium >/dev/null
