#!/usr/bin/env bash
# The German-English model, from the text to the directory that ships: about seven hours of one core.
# Stopped at any time, the same command goes on where it was.
#   bash recipes/german-english/train.sh FOLDER      FOLDER as for prepare.sh
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
hmt=${HMT:-.venv/bin/hmt}
[ -d runs/german-english/data ] || bash "$here/prepare.sh" "$1"
for part in multipath hmt more-multipath more-hmt muon-multipath muon-hmt; do
  "$hmt" train "$here/$part.toml"
done
[ -d runs/german-english/shipped ] || "$hmt" average runs/german-english/muon-hmt --last 3 --half --output runs/german-english/shipped
"$hmt" segmenter runs/german-english/shipped --text runs/german-english/text/everyday.de \
  --text runs/german-english/text/debates.de --valid runs/german-english/text/valid.de
