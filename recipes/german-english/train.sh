#!/usr/bin/env bash
# The German-English model, from the text to the directory that ships: about eight and a half hours of one core.
# Stopped at any time, the same command goes on where it was.
#   bash recipes/german-english/train.sh FOLDER      FOLDER as for prepare.sh
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
hmt=${HMT:-.venv/bin/hmt}
[ -d runs/german-english/data ] || bash "$here/prepare.sh" "$1"
for part in multipath hmt more-multipath more-hmt muon-multipath; do
  "$hmt" train "$here/$part.toml"
done
runs=runs/german-english
python=${PYTHON:-$(dirname "$hmt")/python}
mean() { [ -d "$runs/$1" ] || "$hmt" average "${@:2}" --half --output "$runs/$1"; }
mean before $runs/more-hmt --last 3
[ -f $runs/blended.safetensors ] ||
  "$python" "$here/blend.py" $runs/before $runs/muon-multipath $runs/blended.safetensors
"$hmt" train "$here/muon-hmt.toml"
mean after-muon $runs/muon-hmt --last 3
mean mean $runs/before $runs/after-muon
"$hmt" train "$here/long-multipath.toml"
# All of the new weights in the model before: what chooses the moments is not in a multipath model.
[ -f $runs/long/model.safetensors ] || {
  rm -rf $runs/long.part
  cp -r $runs/mean $runs/long.part
  "$python" "$here/blend.py" $runs/mean $runs/long-multipath $runs/long.part/model.safetensors 1
  mv $runs/long.part $runs/long
}
"$hmt" train "$here/long-hmt.toml"
mean after $runs/long-hmt --last 3
mean shipped $runs/mean $runs/long $runs/after
"$hmt" segmenter $runs/shipped --updates 4500 --text $runs/text/everyday.de --text $runs/text/debates.de --valid $runs/text/valid.de
