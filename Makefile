# `make demo` and `make test` do all the set-up themselves; CI runs `make check`, `make test-wheel` and `make test-hub`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUTPUT ?= runs/demo
ZOO ?= runs/zoo
PYTHONS ?= 3.11 3.12 3.13
CONSTRAINTS ?= constraints.txt

# The tests start hundreds of processes; without this each would compile every file again.
unexport PYTHONDONTWRITEBYTECODE

# A test that takes longer fails, and where it waited is printed.
LIMIT := -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

# Every step says what it is doing.
say = @printf '\n== %s\n' "$(1)"

.DEFAULT_GOAL := help
.PHONY: help demo test quick test-gpu test-slow test-hub test-wheel test-page test-pythons test-lowest page docs notebooks wheel models-wheel release bench bench-quick bench-gpu zoo results lint check clean

help:
	@printf '%s\n' 'make demo    train a grapheme-to-phoneme model for three minutes, load it, use it' \
		'make test    run the tests' 'make quick   run the tests of the equations and the layers and one pass over every family: the inner loop' 'make test-gpu   run the tests of all families on a GPU' 'make test-slow   run the tests that take minutes' 'make test-hub   the other model cards, and faults that take time, on a Hub on loopback' 'make test-wheel   install the wheels in an empty environment and use them' 'make test-page   use the pages, of attention and of pronunciation, in headless Chromium' 'make page   build the page that pronounces words into build/page' 'make test-pythons   make test on Python 3.11, 3.12 and 3.13' 'make test-lowest   the inner loop, a training and an export with the oldest libraries that pyproject.toml promises' 'make docs   build the documentation site into build/site' 'make notebooks   run the notebooks' 'make wheel   build attnzoo into dist/' 'make models-wheel   build attnzoo-models and attnzoo-shelf into dist/: the trained models that attnzoo itself does not contain' 'make release   build, check and try everything that a release has, into dist/' 'make bench-quick   measure training and decoding beside plain torch, and fail if a row is slower than stored' 'make bench-gpu   measure training and decoding on a GPU beside plain torch and Marian' 'make bench   measure against other toolkits, an hour and more' 'make zoo   train every model of model_cards again (hours); a run that was interrupted is resumed' 'make results   measure every trained model on every test set again, into results/results.csv' 'make check   format, lint, types and tests; CI runs it, test-wheel and test-hub' \
		'make clean   remove the virtual environment and caches'

# What training needs, and no more. Made again whenever the dependencies change.
$(VENV)/ready: pyproject.toml $(CONSTRAINTS)
	$(call say,Making the virtual environment $(VENV) and installing attnzoo and what training needs into it)
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "attnzoo needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; name another with: make PYTHON=python3.12 ...")'
	@printf '%s\n' 'torch is the largest part. On Linux pip takes its CUDA build, some GB, which runs on a CPU and on a GPU.' \
		'For the small CPU build stop here, install torch into $(VENV) as pytorch.org says for CPUs, and run make again.'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --progress-bar on --constraint $(CONSTRAINTS) --editable '.[train]'
	@$(BIN)/python -c 'import torch; gpu = torch.cuda.is_available(); print("torch", torch.__version__, "is installed;", "it uses the GPU " + torch.cuda.get_device_name() if gpu else "it sees no GPU and uses the CPU, which is enough for the demo")'
	@touch $@

# What the tests need, too.
$(VENV)/installed: $(VENV)/ready
	$(call say,Installing what the tests need into $(VENV))
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable '.[test]'
	@touch $@

MINUTES ?= 3
demo: $(VENV)/ready
	$(call say,Training on the CMU Pronouncing Dictionary for $(MINUTES) minutes or longer on a slow machine and evaluating on words held out)
	$(BIN)/attnzoo train configs/demo.yaml --output $(OUTPUT) --overwrite --set training.max_minutes=$(MINUTES)
	$(call say,Loading $(OUTPUT)/best in a new process and pronouncing the most frequent words that it did not learn)
	$(BIN)/python -m attnzoo.training.studies.demo_words $(OUTPUT)/best
	$(call say,Pronouncing four words; the last is in no dictionary; and drawing where the model looks)
	$(BIN)/attnzoo pronounce electricity castle dinosaur blorptastic --model $(OUTPUT)/best --plot $(OUTPUT)/alignment.png
	$(call say,Done. The checkpoint is in $(OUTPUT)/best with its card and the picture of the alignments in $(OUTPUT)/alignment.png)

test: $(VENV)/installed
	$(call say,Running the tests on every processor)
	$(BIN)/python -m pytest --numprocesses=logical --dist=worksteal $(LIMIT)
	$(call say,Running the tests on a pretended GPU)
	$(BIN)/python -m pytest --numprocesses=logical --dist=worksteal $(LIMIT) -m pretended tests/device

# Every equation, the outputs and gradients of every model, and what may import what. No files, Trainer or Hub; of the
# grids of wirings and encoders every seventh case, and not the matrix of encoders and paddings.
QUICK := tests/attention tests/recurrent/test_wirings.py tests/recurrent/test_encoder_and_cells.py tests/self_attentive/test_self_attentive.py \
	tests/transformer/test_small_transformer.py tests/every_family/test_outputs.py tests/package/test_layers.py

quick: $(VENV)/installed
	$(call say,Running the tests of the inner loop)
	$(BIN)/python -m pytest --quiet --numprocesses=logical --dist=worksteal $(QUICK) -m 'not grid and not slow' -k 'not the_encoder_equals'

# On a GPU, with a CUDA build of torch in the environment; DEVICE=cpu tries the command itself, and DEVICE=pretended runs
# it on the device of tests/device.
DEVICE ?= cuda
test-gpu: $(VENV)/installed
	$(call say,Running the tests of all families on $(DEVICE))
	$(BIN)/python -m pytest --numprocesses=logical --dist=worksteal --device $(DEVICE) tests/every_family/test_outputs.py \
		tests/every_family/test_invariance.py tests/every_family/test_generation.py tests/decoding/test_search.py

test-slow: $(VENV)/installed
	$(call say,Running the tests that take minutes)
	$(BIN)/python -m pytest -m slow

test-hub: $(VENV)/installed
	$(call say,Pushing to a Hub on loopback and pulling from it with faults on the way)
	$(BIN)/python -m pytest --numprocesses=logical $(LIMIT) -m "hub and not slow" tests/hub

# One of its tests installs twice and trains the demo.
test-wheel: $(VENV)/installed
	$(call say,Installing the wheels in an empty environment and using them as a user does)
	$(BIN)/python -m pytest $(subst =600,=1800,$(LIMIT)) -m wheel tests/package/test_wheel.py tests/export/test_run.py

# MODELS may name others: folders, or models that come with attnzoo.
MODELS ?= attentional-rnn-g2p-cmudict
page: $(VENV)/installed
	$(call say,Building the page with $(MODELS) into build/page)
	$(BIN)/python space/pronounce/build.py build/page $(MODELS)

# Needs Chromium, for example by apt-get install chromium.
test-page: $(VENV)/installed
	$(call say,Using the pages of attention and of pronunciation in headless Chromium)
	$(BIN)/python -m pytest -m browser tests/page tests/viewer

$(VENV)/docs: $(VENV)/installed
	$(call say,Installing Sphinx and what runs notebooks into $(VENV))
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@

# Warnings are errors: a link that leads nowhere, an equation that cannot be read. With ATTNZOO_REPOSITORY_URL=https://...
# links to folders lead to that repository.
docs: $(VENV)/docs
	$(call say,Building the site into build/site/index.html)
	$(BIN)/python docs/reference_pages.py
	rm -rf build/site
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -c docs . build/site
	test -f build/site/index.html

# In a folder of their own, where they may write files.
notebooks: $(VENV)/docs
	$(call say,Running the notebooks)
	rm -rf build/notebooks && mkdir -p build && cp -R notebooks build/notebooks
	PATH=$(abspath $(BIN)):$$PATH OMP_NUM_THREADS=1 $(BIN)/python -m pytest --quiet --nbmake --numprocesses=logical build/notebooks/*.ipynb

# The tests on every Python that attnzoo supports, each in an environment of its own.
test-pythons:
	$(foreach version,$(PYTHONS),$(MAKE) test PYTHON=python$(version) VENV=.venv-$(version) &&) true

# The oldest versions, in an environment of their own: the inner loop; shipped models, trainings and exports.
OLDEST := tests/package/test_cli.py tests/training/test_training.py tests/training/test_resume.py tests/export/test_run.py
test-lowest:
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet packaging
	.venv-lowest/bin/python -m tests.package.lowest build/lowest.txt
	$(MAKE) quick VENV=.venv-lowest CONSTRAINTS=build/lowest.txt
	.venv-lowest/bin/python -m pytest --quiet --numprocesses=logical --dist=worksteal $(LIMIT) $(OLDEST)

# With ATTNZOO_REPOSITORY_URL=https://... the README's links and pictures point to that repository (setup.py).
wheel: $(VENV)/installed
	$(call say,Building attnzoo)
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

# Built from a copy, since setuptools writes folders of its own next to pyproject.toml.
models-wheel: $(VENV)/installed
	$(call say,Building attnzoo-models and attnzoo-shelf)
	rm -rf build/model_cards build/shelf && mkdir -p build && cp -R model_cards shelf build
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist build/model_cards build/shelf

$(VENV)/release: $(VENV)/installed
	$(call say,Installing what a release is built with into $(VENV))
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[release]'
	@touch $@

# The sources of attnzoo and the wheels of all packages, each tried in an empty environment of every installed Python; the packages
# that they were tested with (SBOM), and the hashes of all files.
release: $(VENV)/release
	$(call say,Building attnzoo and attnzoo-models and attnzoo-shelf into dist/)
	rm -rf dist build/model_cards build/shelf && mkdir -p build && cp -R model_cards shelf build
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --wheel --outdir dist build/model_cards
	$(BIN)/python -m build --wheel --outdir dist build/shelf
	$(BIN)/twine check --strict dist/*
	for version in $(PYTHONS); do \
		if python$$version -c '' 2>/dev/null; then sh tests/package/try_release.sh python$$version || exit 1; \
		else echo "python$$version is not here; the wheel was not tried on it"; fi; done
	$(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --output-file dist/sbom.cdx.json constraints.txt
	cd dist && sha256sum * > SHA256SUMS && cat SHA256SUMS

bench: $(VENV)/installed
	$(call say,Making an environment for each toolkit and measuring; an hour or more)
	$(BIN)/python -m tests.benchmarks.environments joeynmt opennmt fairseq eole
	$(BIN)/python -m tests.benchmarks.run --output .benchmarks/bench.json --markdown .benchmarks/bench.md
	$(call say,Comparing the Transformer with Marian and BART and T5 and the classifier with plain torch)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks.transformers_training
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks.transformers_decoding
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks.self_attentive

bench-quick: $(VENV)/installed
	$(call say,Comparing with plain torch; four minutes on an idle core)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks.quick

# On a GPU, as test-gpu; DEVICE=cpu TINY=1 tries the command itself.
bench-gpu: $(VENV)/installed
	$(call say,Comparing with plain torch and Marian on $(DEVICE))
	$(BIN)/python -m tests.benchmarks.gpu --device $(DEVICE) $(if $(TINY),--tiny --rounds 3) --output .benchmarks/gpu.json

zoo: $(VENV)/installed
	$(call say,Training every model of model_cards from its recipe and writing it anew with its card; hours)
	$(BIN)/python -m attnzoo.training.retrain --runs $(ZOO) $(if $(ONLY),--models $(ONLY))

# A model whose data is not here keeps its rows. docs/results.md names the data.
results: $(VENV)/installed
	$(call say,Measuring the trained models on all test sets; half an hour)
	$(BIN)/python -m attnzoo.training.results $(if $(ONLY),--only $(ONLY))

lint: $(VENV)/installed
	$(call say,Checking format and style and types)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint test

clean:
	rm -rf $(VENV) .venv-* dist .pytest_cache .mypy_cache .ruff_cache build *.egg-info
