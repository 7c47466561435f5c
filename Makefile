PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= auto

.PHONY: demo test test-fast test-slow device spark estimators wheel lint docs bench bench-check bench-compare replication \
  environments clean

$(VENV)/.run: pyproject.toml
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("invariance needs Python 3.11 or newer; run make PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.test: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

$(VENV)/.device: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	touch $@

$(VENV)/.spark: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[spark]'
	touch $@

$(VENV)/.lint: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[lint]'
	touch $@

$(VENV)/.docs: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

demo: $(VENV)/.run
	$(BIN)/invariance demo --json demo/posterior.json --plot demo/inclusion.png

# One process a core, each with one thread and a stretch of the tests: neighbours use the same kernels, compiled once.
test test-fast estimators device: export OMP_NUM_THREADS = 1
test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) --maxprocesses 8 --dist worksteal

# Without browsers, databases, clusters, notebooks and subprocesses.
test-fast: $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) --maxprocesses 8 --dist worksteal -m 'not slow and not integration'

test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -m slow

# Rows of Spark data frames, on a session of this machine.
JAVA := $(or $(JAVA_HOME),$(shell command -v java 2> /dev/null))
spark: $(if $(JAVA),$(VENV)/.spark)
	$(if $(JAVA),$(BIN)/python -m pytest tests/moments/test_on_spark.py -m slow,@echo "skipped: Spark needs Java")

# Sweeps on a device: on a GPU where there is one, else the same operations on the processor.
device: $(VENV)/.device
	$(BIN)/python -m pytest tests/kernels/test_device.py tests/inference/test_variational_device.py tests/sweeps/test_sweep_device.py \
	  tests/replication/test_genes.py::test_a_sweep_answers_for_the_variational_method -n $(JOBS)

# scikit-learn's checks of its conventions, of estimators of every base class whose fit needs no event=.
estimators: $(VENV)/.test
	$(BIN)/python -m pytest tests/estimators tests/baselines -m 'slow or not slow' -k test_scikit_learn -n $(JOBS)

# Builds a wheel with its kernels compiled, installs it into a clean environment that cannot be written to, and fits there.
wheel: $(VENV)/.test
	$(BIN)/python -m pytest tests/test_installation.py -m 'slow or not slow' -k 'not rounds'

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/style.py --check
	$(BIN)/python scripts/docstrings.py

# Offline: MathJax and the inventories of other projects lie in docs/.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -n -q -d docs/_build/doctrees docs docs/_build/html
	@echo "docs/_build/html/index.html"

# The paper's studies at the quick scale; `python -m replication NAME --scale paper` for one of them in full.
# QUICKER='--replicates 1 --jobs 2' or STUDIES='theory cost' for less.
STUDIES ?= theory identifiability assumptions comparison-p10 comparison-p450 cost
replication: $(VENV)/.test
	for study in $(STUDIES); do \
	  $(BIN)/python -m replication $$study $(QUICKER) || exit 1; done
	$(BIN)/python -m replication genes --simulated $(or $(GENES),600) $(QUICKER)
	$(BIN)/python -m replication genes-cost --simulated $(or $(GENES),200) $(QUICKER)

# Environments of real data left out; SETS=folder: of the CSV files that its sets.toml lists.
environments: $(VENV)/.test
	$(BIN)/python benchmarks/real_environments.py --out results/environments $(if $(SETS),--sets $(SETS))

bench: $(VENV)/.test
	for script in $(filter-out %/check.py %/on_device.py,$(wildcard benchmarks/[a-z]*.py)); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# Ratios to plain NumPy beside the committed ones: make bench-check FLOOR=0.5 ONLY="exact rows"
bench-check: $(VENV)/.test
	$(BIN)/python benchmarks/check.py $(if $(FLOOR),--floor $(FLOOR)) $(if $(ONLY),--only $(ONLY))

# Core operations of this checkout beside those of a commit, alternately: make bench-compare BASE=HEAD~3 FEATURES="10 15 20 24"
bench-compare: $(VENV)/.test
	$(BIN)/python benchmarks/revisions.py $(BASE) $(if $(FEATURES),--features $(FEATURES)) $(if $(ONLY),--only $(ONLY))

clean:
	rm -rf $(VENV) demo docs/_build docs/api/generated
