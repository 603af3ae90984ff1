#!/usr/bin/env bash
# The text of the German-English model that ships, and its vocabulary: Europarl and the `anki` lines
# of Tatoeba (CC BY 2.0 FR) as a live translator meets them, and templates of our own; then the same
# with all of Europarl, for the last parts of the training.
#   bash recipes/german-english/prepare.sh FOLDER
# FOLDER holds europarl-de-en, tatoeba-de-en and newstest-de-en (of the last only what to leave out).
set -euo pipefail
folder=${1:?name the folder that holds europarl-de-en, tatoeba-de-en and newstest-de-en}
out=runs/german-english
hmt=${HMT:-.venv/bin/hmt}
python=${PYTHON:-$(dirname "$hmt")/python}
# prepare TEXT DATA SHARE OPTIONS...: the text with a share of Europarl, then its token files
prepare() {
  local text=$out/$1 data=$out/$2 share=$3
  [ -d "$data" ] && return
  "$python" "$(dirname "${BASH_SOURCE[0]}")/make_text.py" "$folder" "$text" "$share"
  "$hmt" prepare --source "$text/train.de" --target "$text/train.en" \
    --valid-source "$text/valid.de" --valid-target "$text/valid.en" \
    --max-tokens 120 --max-ratio 4 --workers "${WORKERS:-1}" --output "$data" "${@:4}"
}
prepare text data 0.55 --size 10000
given=$out/data/tokenizer.json
prepare text-all data-all 1 --vocabulary given --source-tokenizer "$given" --target-tokenizer "$given"
