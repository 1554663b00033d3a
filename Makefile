# Set-up, checks, data. `.venv` is made when a target first needs it.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: demo student quick test crash-test exact-test hostile-test mutants check fix schema multi30k clean

demo: $(INSTALLED)
	$(BIN)/mtkit run -c data/demo/demo.yaml

# Three teachers, and the student of what they write: some two hours of two cores. What is done already
# is not done again. Wants `make multi30k`.
student: $(INSTALLED)
	set -e; for seed in 1 2 3; do \
		$(BIN)/mtkit run -c configs/multi30k-en-de-fast.yaml --run runs/fast-$$seed --set seed=$$seed; \
	done
	$(BIN)/mtkit run -c configs/multi30k-en-de-student.yaml

# Each file of tests is one worker's: what it prepares is prepared once; the slow ones come first.
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# The laws of the core of every room: what they say of a change is known within a minute.
quick: $(INSTALLED)
	$(PYTEST) -m "not slow and not campaign"

test: $(INSTALLED)
	$(PYTEST)

# Campaigns: what the tests sample, at full length. Some minutes each.
crash-test: $(INSTALLED)
	$(BIN)/python -m pytest -m campaign -rP tests/hostile/test_crashes.py

exact-test: $(INSTALLED)
	$(BIN)/python -m pytest -m campaign tests/training/test_exact_bits.py

hostile-test: $(INSTALLED)
	$(BIN)/python -m pytest -m campaign -rP tests/hostile/test_hostile_artifacts.py tests/hostile/test_nasty_data.py

# Do the tests notice what is wrong? One deleted or negated line at a time; an hour.
mutants: $(INSTALLED)
	$(BIN)/python tests/benchmarks/mutants.py --count 60 --seed 1

check: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

fix: $(INSTALLED)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

schema: $(INSTALLED)
	$(BIN)/python -c 'from mtkit.config.yaml import schema; print(schema())' > configs/schema.json

# make multi30k FROM=DIR copies DIR/{train,val,test2016}.{en,de}; without FROM, from the hub.
multi30k: $(INSTALLED)
	@mkdir -p data/multi30k
ifdef FROM
	cp $(foreach split,train val test2016,$(FROM)/$(split).en $(FROM)/$(split).de) data/multi30k/
else
	$(BIN)/python -c "$$DOWNLOAD_MULTI30K"
endif

clean:
	rm -rf .venv build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find mtkit tests data -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c "$$REQUIRE_PYTHON"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		$$($(PYTHON) -c "$$CPU_INDEX") -c constraints.txt -e '.[dev]'
	@touch $@

define REQUIRE_PYTHON
import sys
if sys.version_info < (3, 11):
    here = ".".join(map(str, sys.version_info[:3]))
    sys.exit(f"mtkit needs Python 3.11 or newer, this is {here}: try make PYTHON=python3.11")
endef
export REQUIRE_PYTHON

# Without an NVIDIA GPU, the gigabytes of CUDA in the usual Linux wheel of PyTorch are of no use.
define CPU_INDEX
import shutil, sys, urllib.request
index = "https://download.pytorch.org/whl/cpu"
if sys.platform == "linux" and shutil.which("nvidia-smi") is None:
    try:
        urllib.request.urlopen(urllib.request.Request(index + "/torch/", method="HEAD"), timeout=5)
        print("--extra-index-url", index)
    except OSError:
        pass
endef
export CPU_INDEX

define DOWNLOAD_MULTI30K
import datasets, pathlib
for split, name in {"train": "train", "validation": "val", "test": "test2016"}.items():
    rows = datasets.load_dataset("bentrevett/multi30k", split=split)
    for language in ("en", "de"):
        lines = (" ".join(line.split()) + "\n" for line in rows[language])
        path = pathlib.Path("data/multi30k") / f"{name}.{language}"
        path.write_text("".join(lines), encoding="utf-8")
endef
export DOWNLOAD_MULTI30K
