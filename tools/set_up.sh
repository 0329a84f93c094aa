#!/usr/bin/env bash
# The virtual environment .venv stands beside the Makefile: the locked packages of a purpose, and apportion itself as an editable
# install. A purpose is demo, test (which has what demo needs) or all (which has both); from one to the next, packages are only added.
set -euo pipefail
cd "$(dirname "$0")/.."

stop() {
    echo "apportion: $*" >&2
    exit 1
}

fits() {
    command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# megabytes: of .venv, by du -sm.
case ${1:-all} in
    demo) lock=requirements-demo.lock megabytes=1160 satisfied="demo" ;;
    test) lock=requirements-test.lock megabytes=1400 satisfied="demo test" ;;
    all) lock=requirements.lock megabytes=1660 satisfied="demo test all" ;;
    *) stop "set up for what? demo, test or all" ;;
esac

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

version() {
    "$1" -c 'import sys; print(*sys.version_info[:3], sep=".")'
}

if [ -n "${PYTHON:-}" ] && fits .venv/bin/python && [ "$(version .venv/bin/python)" != "$(version "$python")" ]; then
    stop ".venv has Python $(version .venv/bin/python), and $PYTHON is $(version "$python"): make fresh removes it, then run this again"
fi
if ! fits .venv/bin/python; then
    echo "apportion: making .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv
fi

echo "apportion: installing $(grep -c '==' $lock) packages from $lock ($megabytes MB on the disk; minutes the first time)"
pip="env PIP_DISABLE_PIP_VERSION_CHECK=1 .venv/bin/python -m pip install --no-compile"
# PySpark is a source package, most of it jars. Its wheel is made without compressing them once more.
printf '[bdist_wheel]\ncompression = stored\n' >.venv/stored.cfg
# What builds packages comes first and is pinned too, so that nothing below fetches a build tool of its own.
awk '/^[a-z]/ { wanted = /^(packaging|pip|setuptools|wheel)==/ } wanted' requirements.lock >.venv/builders.lock
$pip --quiet --require-hashes -r .venv/builders.lock
# A lock names every package, so there are no dependencies to look up.
DIST_EXTRA_CONFIG="$PWD/.venv/stored.cfg" $pip --progress-bar off --require-hashes --no-deps --no-build-isolation -r $lock |
    sed -un -e 's/^Collecting \([^ ]*\).*/  \1/p' -e 's/^Installing collected packages.*/  unpacking/p'
$pip --quiet --no-deps --no-build-isolation -e .
# The demo imports a tenth of its modules, which Python compiles when it first does. Tests start hundreds of processes.
[ "$satisfied" = demo ] || .venv/bin/python -m compileall -qq -j 0 .venv/lib/python3*/site-packages || true
for purpose in $satisfied; do touch ".venv/.$purpose"; done
echo "apportion: .venv is ready"
