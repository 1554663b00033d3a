# Set-up, checks, data. Targets create .venv when they first need it.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: demo student quick test gate crash-test exact-test hostile-test mutants check fix schema multi30k clean

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
	test -f $(SYNTHETIC)/n-best.jsonl || $(BIN)/mtkit translate data/multi30k/train.en \
		-m runs/fast-1 -m runs/fast-2 -m runs/fast-3 --beam 5 --n-best 5 --jsonl -o $(SYNTHETIC)/n-best.jsonl
	$(BIN)/python configs/write_synthetic.py $(SYNTHETIC) data/multi30k/train.de
	$(BIN)/mtkit run -c configs/multi30k-en-de-student.yaml

# A file of tests runs in one worker, which sets up its fixtures once; files with slow tests come first.
# Up to four workers: one more than there are cores, because some tests wait for processes.
# Bytecode is kept, because the tests start many processes.
WORKERS := $(shell $(PYTHON) -c "import os; print(min(4, os.cpu_count() + 1))")
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile \
	--no-loadscope-reorder

# Fast tests of the core: CONTRIBUTING.md says what they leave out.
QUICK := artifacts batching config corpus decoding models scoring tokenizer training test_architecture.py
quick: $(INSTALLED)
	$(PYTEST) -m "not slow and not campaign" $(addprefix tests/,$(QUICK))

test: $(INSTALLED)
	$(PYTEST)

# Campaigns: the same laws on many more random cases. Some minutes each.
crash-test: $(INSTALLED)
	$(BIN)/python -m pytest -m campaign -rP tests/hostile/test_crashes.py

# The code makes what it made when `python tests/gate.py RECORD` ran.
gate: $(INSTALLED)
	RECORD=$(abspath $(RECORD)) $(BIN)/python -m pytest -m campaign tests/test_gate.py

exact-test: $(INSTALLED)
	$(BIN)/python -m pytest -m campaign tests/training/test_exact_bits.py

hostile-test: $(INSTALLED)
	$(BIN)/python -m pytest -m campaign -rP tests/hostile/test_hostile_artifacts.py tests/hostile/test_hostile_data.py \
		tests/hostile/test_linear_time.py tests/hostile/test_faults_of_files.py

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
	$(BIN)/python configs/json_schema.py > configs/schema.json
	$(BIN)/python configs/settings_page.py > configs/SETTINGS.md

# make multi30k FROM=DIR copies DIR/{train,val,test2016}.{en,de}; without FROM, it downloads from the hub.
multi30k: $(INSTALLED)
ifdef FROM
	@mkdir -p data/multi30k
	cp $(foreach split,train val test2016,$(FROM)/$(split).en $(FROM)/$(split).de) data/multi30k/
else
	$(BIN)/python data/download_multi30k.py
endif

clean:
	rm -rf .venv build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find mtkit tests data -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) .ci/bootstrap.py
	@touch $@
