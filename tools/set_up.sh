#!/usr/bin/env bash
# A complete .venv stands beside the Makefile: the locked packages, and apportion itself as an editable install.
set -euo pipefail
cd "$(dirname "$0")/.."

stop() {
    echo "apportion: $*" >&2
    exit 1
}

fits() {
    command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

python=""
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    if fits "$candidate"; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || stop "Python 3.11 or newer is needed and was not found (looked for: ${PYTHON:-python3 python3.13 python3.12 python3.11})." \
    "Install it, or name one with: make PYTHON=/path/to/python3"

if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    stop "$("$python" --version) has no venv module. On Debian and Ubuntu install it with: apt install python3-venv"
fi

if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
    echo "apportion: making .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv
fi

wanted=$(grep -c '==' requirements.lock)
echo "apportion: installing $wanted packages from requirements.lock (1.4 GB on the disk; minutes the first time)"
pip="env PIP_DISABLE_PIP_VERSION_CHECK=1 .venv/bin/python -m pip"
# What builds packages comes first and is pinned too, so that nothing below fetches a build tool of its own.
awk '/^[a-z]/ { wanted = /^(packaging|pip|setuptools|wheel)==/ } wanted' requirements.lock >.venv/builders.lock
$pip install --quiet --require-hashes -r .venv/builders.lock
$pip install --progress-bar off --require-hashes --no-build-isolation -r requirements.lock |
    sed -un -e 's/^Collecting \([^ ]*\).*/  \1/p' -e 's/^Installing collected packages.*/  unpacking/p'
$pip install --quiet --no-deps --no-build-isolation -e .
touch .venv/.ready
echo "apportion: .venv is ready"
