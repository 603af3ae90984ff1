#!/usr/bin/env bash
# The German-English model, from the text to the directory that ships: about 18 hours of one core.
# Stopped at any time, the same command goes on where it was.
#   bash recipes/german-english/train.sh FOLDER      FOLDER as for prepare.sh
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
hmt=${HMT:-.venv/bin/hmt}
[ -d runs/german-english/data-all ] || bash "$here/prepare.sh" "$1"
for part in multipath hmt more-multipath more-hmt muon-multipath; do
  "$hmt" train "$here/$part.toml"
done
runs=runs/german-english
python=${PYTHON:-$(dirname "$hmt")/python}
mean() { [ -d "$runs/$1" ] || "$hmt" average "${@:2}" --half --output "$runs/$1"; }
# All of the new weights in the model before: what chooses the moments is not in a multipath model.
all_new() {
  [ -f "$runs/$1/model.safetensors" ] && return
  rm -rf "$runs/$1.part"
  cp -r "$2" "$runs/$1.part"
  "$python" "$here/blend.py" "$2" "$3" "$runs/$1.part/model.safetensors" 1
  mv "$runs/$1.part" "$runs/$1"
}
mean before $runs/more-hmt --last 3
[ -f $runs/blended.safetensors ] ||
  "$python" "$here/blend.py" $runs/before $runs/muon-multipath $runs/blended.safetensors
"$hmt" train "$here/muon-hmt.toml"
mean after-muon $runs/muon-hmt --last 3
mean mean $runs/before $runs/after-muon
"$hmt" train "$here/long-multipath.toml"
all_new long $runs/mean $runs/long-multipath
"$hmt" train "$here/long-hmt.toml"
mean after $runs/long-hmt --last 3
mean shipped-before $runs/mean $runs/long $runs/after
"$hmt" train "$here/on-multipath.toml"
"$hmt" train "$here/onward-multipath.toml"
all_new onward $runs/shipped-before $runs/onward-multipath
"$hmt" train "$here/onward-hmt.toml"
mean after-onward $runs/onward-hmt --last 3
mean shipped-onward $runs/onward $runs/after-onward
"$hmt" train "$here/wide-multipath.toml"
all_new wide $runs/shipped-onward $runs/wide-multipath
"$hmt" train "$here/wide-hmt.toml"
mean after-wide $runs/wide-hmt --last 3
mean half-multipath $runs/shipped-onward $runs/wide
mean half-hmt $runs/shipped-onward $runs/after-wide
mean shipped-wide $runs/half-hmt $runs/half-multipath
[ -f $runs/shipped-wide/segmenter.safetensors ] ||
  "$hmt" segmenter $runs/shipped-wide --updates 6600 --text $runs/text/everyday.de --text $runs/text/debates.de --valid $runs/text/valid.de
bash "$here/prepare.sh" "$1" $runs/shipped-wide
"$hmt" train "$here/restored-multipath.toml"
all_new restored $runs/shipped-wide $runs/restored-multipath
"$hmt" train "$here/restored-hmt.toml"
mean shipped-restored $runs/shipped-wide $runs/restored $runs/restored-hmt
"$hmt" train "$here/again-multipath.toml"
all_new again $runs/shipped-restored $runs/again-multipath
"$hmt" train "$here/again-hmt.toml"
"$hmt" train "$here/beside-hmt.toml"
mean shipped-again $runs/shipped-restored $runs/again $runs/again-hmt $runs/beside-hmt
"$hmt" train "$here/debates-hmt.toml"
mean shipped-debates $runs/shipped-again $runs/shipped-again $runs/debates-hmt
[ -f $runs/shipped-debates/segmenter.safetensors ] || # the one that ships
  "$hmt" segmenter $runs/shipped-debates --updates 6000 --precision bf16 --text $runs/text-all/everyday.de --text $runs/text-all/debates.de --valid $runs/text-all/valid.de
bash "$here/prepare.sh" "$1" $runs/shipped-debates heard
"$hmt" train "$here/heard-multipath.toml"
all_new heard $runs/shipped-debates $runs/heard-multipath
"$hmt" train "$here/heard-hmt.toml"
mean shipped $runs/shipped-debates $runs/heard $runs/heard-hmt
cp $runs/shipped-debates/segmenter.safetensors $runs/shipped/
