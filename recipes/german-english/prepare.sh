#!/usr/bin/env bash
# The text of the German-English model that ships, and its vocabulary: Europarl and the `anki` lines
# of Tatoeba (CC BY 2.0 FR) as a live translator meets them, and templates of our own.
#   bash recipes/german-english/prepare.sh FOLDER
# FOLDER holds europarl-de-en, tatoeba-de-en and newstest-de-en (of the last only what to leave out).
set -euo pipefail
folder=${1:?name the folder that holds europarl-de-en, tatoeba-de-en and newstest-de-en}
out=runs/german-english
hmt=${HMT:-.venv/bin/hmt}
"${PYTHON:-$(dirname "$hmt")/python}" "$(dirname "${BASH_SOURCE[0]}")/make_text.py" "$folder" "$out/text"
"$hmt" prepare --source "$out/text/train.de" --target "$out/text/train.en" \
  --valid-source "$out/text/valid.de" --valid-target "$out/text/valid.en" \
  --size 10000 --max-tokens 120 --max-ratio 4 --workers "${WORKERS:-1}" --output "$out/data"
