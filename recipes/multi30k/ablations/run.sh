#!/usr/bin/env bash
# The ablations of the HMT paper in small: each line trains from the same multipath weights and is
# evaluated on test_2016_flickr.  What is there already is not done again.
#   hmt train recipes/multi30k/multipath.toml && bash recipes/multi30k/ablations/run.sh DIR
set -euo pipefail
data=${1:?name the folder that holds test_2016_flickr.de and test_2016_flickr.en}
here=$(dirname "${BASH_SOURCE[0]}")
hmt=${HMT:-.venv/bin/hmt}
out=runs/multi30k/ablations

train() { # name, settings...
  local name=$1 settings=()
  shift
  for setting in "$@"; do settings+=(--set "$setting"); done
  $hmt train "$here/hmt.toml" --set "output=$out/$name" ${settings[@]+"${settings[@]}"}
}
evaluate() { # name, folder of the result, options...
  local name=$1 result=$2
  shift 2
  $hmt --quiet evaluate "$out/$name" --source "$data/test_2016_flickr.de" --target "$data/test_2016_flickr.en" \
    --output "$out/test/$result" "$@"
}

train reference
evaluate reference reference --threshold 0.3,0.4,0.5,0.6,0.7
evaluate reference reference-attention --attention max,selected
train best-path 'model.config.path="best"'
evaluate best-path best-path
train latency-0 model.config.latency_weight=0.0
evaluate latency-0 latency-0
train latency-2 model.config.latency_weight=2.0
evaluate latency-2 latency-2
train state-0 model.config.state_weight=0.0
evaluate state-0 state-0
train max 'model.config.attention="max"'
evaluate max max --attention max,selected
train L4-K1 model.config.lower=4 model.config.states=1
evaluate L4-K1 L4-K1
train L3-K2 model.config.lower=3 model.config.states=2
evaluate L3-K2 L3-K2
train L1-K6 model.config.lower=1 model.config.states=6
evaluate L1-K6 L1-K6
# Is the dial free?  One model for every lower boundary against models for one.
train all 'model.config.lower=[1,6]'
evaluate all all --lower 1,2,4,6
train L4-K4 model.config.lower=4
evaluate L4-K4 L4-K4
train L6-K4 model.config.lower=6
evaluate L6-K4 L6-K4
"${PYTHON:-.venv/bin/python}" "$here/table.py" "$out/test"
