#!/usr/bin/env bash
# The model that shipped before recipes/german-english, from the data to the directory: some three hours of one core.
# Stopped at any time, the same command goes on where it was.
#   bash recipes/tatoeba/train.sh FOLDER      FOLDER as for prepare.sh
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
hmt=${HMT:-.venv/bin/hmt}
[ -d runs/tatoeba/spoken ] || bash "$here/prepare.sh" "$1"
"$hmt" train "$here/hmt.toml"
"$hmt" train "$here/longer.toml"
"$hmt" average runs/tatoeba/longer --last 5 --half --output runs/tatoeba/shipped
