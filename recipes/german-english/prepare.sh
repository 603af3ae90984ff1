#!/usr/bin/env bash
# The text of the German-English model that ships, and its vocabulary: Europarl and the `anki` lines
# of Tatoeba (CC BY 2.0 FR) as a live translator meets them, and templates of our own; then the same
# with all of Europarl, for the later parts of the training.
#   bash recipes/german-english/prepare.sh FOLDER
# FOLDER holds europarl-de-en, tatoeba-de-en and newstest-de-en (of the last only what to leave out).
#   bash recipes/german-english/prepare.sh FOLDER MODEL
# then makes the text of later parts, of which some is as the segmenter of MODEL restores it, and
# its first round alone, in which seven tenths of the words are debates.
#   bash recipes/german-english/prepare.sh FOLDER MODEL heard
# makes the text of the last parts: the same with the segmenter of another MODEL and more such lines.
set -euo pipefail
folder=${1:?name the folder that holds europarl-de-en, tatoeba-de-en and newstest-de-en}
out=runs/german-english
here=$(dirname "${BASH_SOURCE[0]}")
hmt=${HMT:-.venv/bin/hmt}
python=${PYTHON:-$(dirname "$hmt")/python}
# encode TEXT DATA OPTIONS...: the token files of a text
encode() {
  local text=$out/$1
  "$hmt" prepare --source "$text/train.de" --target "$text/train.en" \
    --valid-source "$text/valid.de" --valid-target "$text/valid.en" \
    --max-tokens 120 --max-ratio 4 --workers "${WORKERS:-1}" --output "$out/$2" "${@:3}"
}
# prepare TEXT DATA SHARE OPTIONS...: the text with a share of Europarl, then its token files
prepare() {
  [ -d "$out/$2" ] && return
  "$python" "$here/make_text.py" "$folder" "$out/$1" "$3"
  encode "$1" "$2" "${@:4}"
}
prepare text data 0.55 --size 10000
same_pieces=(--vocabulary given --source-tokenizer "$out/data/tokenizer.json" --target-tokenizer "$out/data/tokenizer.json")
prepare text-all data-all 1 "${same_pieces[@]}"
# restore NAME SHARE: that text with SHARE of its written lines as the segmenter restores them
restore() {
  [ -d "$out/data-$1" ] && return
  "$python" "$here/restore.py" "$model" $out/text-all "$out/text-$1" "$2"
  encode "text-$1" "data-$1" "${same_pieces[@]}"
}
model=${2:-}
if [ "${3:-}" = heard ]; then
  restore heard 0.15
elif [ -n "$model" ]; then
  restore restored 0.08
fi
first_round=1944109 # lines; the second round has no debates
if [ -d $out/text-restored ] && [ ! -d $out/data-debates ]; then
  mkdir -p $out/text-debates
  for side in de en; do
    head -n $first_round $out/text-restored/train.$side >$out/text-debates/train.$side
    cp $out/text-restored/valid.$side $out/text-debates/
  done
  encode text-debates data-debates "${same_pieces[@]}"
fi
