# `make help` lists the commands. `make book` and `make test` need only
# Python 3.11 to 3.13 with pip and venv, and make.

PYTHON ?= python3
# The address of PyTorch's own CPU index, if you want its smaller build on Linux.
TORCH_INDEX ?=
PORT ?= 8000
# The folder that will keep a course's grades. KEY is its private key.
OUT ?=
# The folder of tests that make check runs; if none is named, it runs the quick ones.
SUBJECT ?=
QUICK := $(addprefix tests/,transform layers problems theory claims experiments data \
	$(addprefix book/test_,style.py rooms.py notebooks.py))

# Without a compiler bnlib warns once; no notebook has that warning in its outputs.
export PYTHONWARNINGS := ignore:batch_norm runs on torch's own kernel

# Without a compiler only the slow backend is exact: the book and the tests use it.
ifeq ($(shell command -v $(firstword $(CC)) 2>/dev/null),)
export BNLIB_BACKEND ?= readable
endif

BIN := .venv/bin
READY := .venv/.ready

# An environment holds the path at which it was made: after a copy or a move it would
# run the original's bnlib, or nothing.
MOVED := $(shell test -f $(READY) && test "$$(cat $(READY))" != "$$(pwd -P)" && echo moved)

.PHONY: help book check test check-site lab serve sanitize notebooks pdf executed package release-check assignments bench pins clean moved

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# The stamp is written last, so that an interrupted install is done again.
$(READY): pyproject.toml constraints.txt $(MOVED)
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else f"Python 3.11, 3.12 or 3.13 is needed; $(PYTHON) is {v[0]}.{v[1]}. Name another: make PYTHON=python3.11")'
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "$(PYTHON) lacks venv: on Debian and Ubuntu, apt install python3-venv"; exit 1; }
	rm -f $(READY)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) -c constraints.txt -e ".[book,test]"
	@pwd -P > $(READY)

moved:
	@echo "the environment was made in another folder: making it anew"
	@rm -rf .venv

book: $(READY)  ## install, run every notebook and build the site
	$(BIN)/python -m tools.build

# Two workers on two cores: threads of torch's own would wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

check: $(READY)  ## the quick tests, without the site; SUBJECT=layers: those alone
	$(PYTEST) -m "not slow" --instances 1 $(if $(SUBJECT),$(SUBJECT:%=tests/%),$(QUICK))

test: book  ## run all tests (builds the site first)
	$(PYTEST) --nbval-sanitize-with tests/nbval_sanitize.cfg tests intro.ipynb chapters

check-site: book  ## the browser tests in every light: dark, phone, keyboard, paper
	$(BIN)/python -m pytest -n 2 tests/browser --every-light

lab: $(READY)  ## open the notebooks in JupyterLab
	$(BIN)/jupyter lab intro.ipynb

serve:  ## show the built site on this machine
	@$(PYTHON) -m tools.serve $(PORT)

notebooks: $(READY)  ## run every notebook again and store its text outputs
	$(BIN)/python -m tools.notebooks

pdf: book  ## print the whole site to one file, _build/book.pdf (needs Chromium)
	$(BIN)/python -m tools.pdf

executed: book  ## write the notebooks with all outputs to _build/executed
	$(BIN)/python -m tools.executed _build/executed

package:  ## build the wheel and the source distribution into dist
	$(PYTHON) -m venv _build/package
	_build/package/bin/python -m pip install -q --disable-pip-version-check build
	_build/package/bin/python -m build --quiet

release-check: $(READY)  ## say what a release still needs
	@$(BIN)/python -m tools.release

# The key goes by way of the environment, since a list of processes shows arguments to
# everybody. An empty key that somebody gave arrives there too, and is refused.
ifneq ($(filter command environment,$(firstword $(origin KEY))),)
assignments: export BNLIB_COURSE_KEY = $(value KEY)
endif
assignments: $(READY)  ## make the problem sets; with KEY and OUT=FOLDER, a course
	$(BIN)/python -m grading make $(if $(OUT),--out "$(OUT)")

bench: $(READY)  ## time bnlib against torch on this machine
	$(BIN)/python -m tools.bench

sanitize: $(READY)  ## run the C kernel under the compiler's sanitizers
	$(BIN)/python -m tools.sanitize

# Resolved for the oldest supported Python, so that every later one finds the versions.
# There are no hashes: with them pip refuses PyTorch's own builds, and the book itself.
pins:  ## write constraints.txt: the newest versions that pyproject.toml allows
	$(PYTHON) -m venv _build/pins
	_build/pins/bin/python -m pip install -q --disable-pip-version-check uv
	_build/pins/bin/uv pip compile -q --upgrade --python-version 3.11 --python-platform linux --all-extras --no-annotate --custom-compile-command "make pins" -o constraints.txt pyproject.toml

clean:  ## remove what was built (not the environment)
	rm -rf _build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
