#!/usr/bin/env bash
# Everyday German-English sentences: only the lines whose origin is `anki`
# (CC BY 2.0 FR, tatoeba.org / manythings.org).  runs/tatoeba/data holds them as they are,
# runs/tatoeba/spoken with more as they are heard (spoken.py), in the same vocabulary.
#   bash recipes/tatoeba/prepare.sh FOLDER      FOLDER holds train.{de,en,origin}.gz and dev.{de,en}
set -euo pipefail
folder=${1:?name the folder that holds train.de.gz, train.en.gz, train.origin.gz, dev.de and dev.en}
out=runs/tatoeba
hmt=${HMT:-.venv/bin/hmt}
mkdir -p "$out"
paste <(gzip -cd "$folder/train.origin.gz") <(gzip -cd "$folder/train.de.gz") <(gzip -cd "$folder/train.en.gz") |
  awk -F'\t' -v de="$out/anki.de" -v en="$out/anki.en" '$1 == "anki" { print $2 > de; print $3 > en }'
"$hmt" prepare --source "$out/anki.de" --target "$out/anki.en" \
  --valid-source "$folder/dev.de" --valid-target "$folder/dev.en" \
  --size 6000 --max-tokens 100 --max-ratio 4 --output "$out/data"
"${PYTHON:-.venv/bin/python}" "$(dirname "${BASH_SOURCE[0]}")/spoken.py" "$out"/{anki,spoken}.{de,en}
"$hmt" prepare --source "$out/spoken.de" --target "$out/spoken.en" \
  --valid-source "$folder/dev.de" --valid-target "$folder/dev.en" \
  --vocabulary given --source-tokenizer "$out/data/tokenizer.json" --target-tokenizer "$out/data/tokenizer.json" \
  --max-tokens 100 --max-ratio 4 --output "$out/spoken"
