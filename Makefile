# Set-up, checks, data. Targets create .venv when they first need it.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: demo student quick test crash-test exact-test hostile-test mutants check fix schema multi30k clean

demo: $(INSTALLED)
	$(BIN)/mtkit run --demo

# Train three teachers, translate the training text with all three, and train a student on the result.
# Takes about two hours on two cores; finished parts are not repeated. Needs `make multi30k`.
SYNTHETIC := runs/synthetic
student: $(INSTALLED)
	set -e; for seed in 1 2 3; do \
		$(BIN)/mtkit run -c configs/multi30k-en-de-fast.yaml --run runs/fast-$$seed --set seed=$$seed; \
	done
	mkdir -p $(SYNTHETIC)
	test -f $(SYNTHETIC)/n-best.jsonl || $(BIN)/mtkit translate data/multi30k/train.en --resume \
		-m runs/fast-1 -m runs/fast-2 -m runs/fast-3 --beam 5 --n-best 5 --jsonl -o $(SYNTHETIC)/n-best.jsonl
	$(BIN)/python -c "$$WRITE_SYNTHETIC" $(SYNTHETIC) data/multi30k/train.de
	$(BIN)/mtkit run -c configs/multi30k-en-de-student.yaml

# A file of tests runs in one worker, which sets up its fixtures once; files with slow tests come first.
# Bytecode is kept, because the tests start many processes.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile \
	--no-loadscope-reorder

# Fast tests, in about a minute.
quick: $(INSTALLED)
	$(PYTEST) -m "not slow and not campaign"

test: $(INSTALLED)
	$(PYTEST)

# Campaigns: the same laws on many more random cases. Some minutes each.
crash-test: $(INSTALLED)
	$(BIN)/python -m pytest -m campaign -rP tests/hostile/test_crashes.py

exact-test: $(INSTALLED)
	$(BIN)/python -m pytest -m campaign tests/training/test_exact_bits.py

hostile-test: $(INSTALLED)
	$(BIN)/python -m pytest -m campaign -rP tests/hostile/test_hostile_artifacts.py tests/hostile/test_hostile_data.py \
		tests/hostile/test_linear_time.py

# Mutation testing: delete or negate one line at a time and see whether a test fails. Takes an hour.
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
	$(BIN)/python configs/settings_page.py > configs/SETTINGS.md

# make multi30k FROM=DIR copies DIR/{train,val,test2016}.{en,de}; without FROM, it downloads from the hub.
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

# Without an NVIDIA GPU, use PyTorch's CPU wheels, which lack gigabytes of CUDA libraries.
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

# best.de: the best translations; close.de: of each n-best list, the one closest to the reference by chrF.
# A translation that reached max_length becomes a blank line, which training drops.
define WRITE_SYNTHETIC
import json, pathlib, sys
from sacrebleu.metrics import CHRF
folder, references = map(pathlib.Path, sys.argv[1:])
chrf, best, close = CHRF(), [], []
rows, lines = ((folder / "n-best.jsonl").open(encoding="utf-8"), references.open(encoding="utf-8"))
for row, reference in zip(map(json.loads, rows), lines, strict=True):
    whole = [it for it in row["n_best"] if it["score"] is not None and not it["truncated"]]
    best.append("" if row["truncated"] else row["text"])
    key = lambda it: (chrf.sentence_score(it["text"], [reference.strip()]).score, it["score"])
    close.append(max(whole, key=key)["text"] if whole else "")
for name, texts in {"best.de": best, "close.de": close}.items():
    (folder / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
endef
export WRITE_SYNTHETIC

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
