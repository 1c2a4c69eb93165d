#!/bin/sh
# Install the wheels of dist/ in an empty environment of this Python, outside of the checkout, and use them.
set -eu
python=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
echo "== $("$python" --version)"
"$python" -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet --constraint "$root/constraints.txt" "$root"/dist/attnzoo-*.whl
cd "$place"
venv/bin/attnzoo pronounce philosophy --no-dictionary
venv/bin/pip install --quiet --constraint "$root/constraints.txt" "$root"/dist/attnzoo_models-*.whl "$root"/dist/attnzoo_shelf-*.whl
venv/bin/attnzoo translate "A dog runs."
venv/bin/attnzoo translate "A dog runs." --model bahdanau2014-tatoeba-en-de
venv/bin/attnzoo classify "A wonderful film."
for command in pronounce translate classify view align export; do venv/bin/attnzoo "$command" --help > help.txt; done
