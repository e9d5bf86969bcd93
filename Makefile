# Every target first makes what it needs: the virtual environment, the compiled kernels, a Java for Spark.
# A second run skips that unless pyproject.toml, setup.py or a kernel changed.

SHELL := /bin/bash
VENV ?= .venv
override VENV := $(abspath $(VENV))
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
BUILT := $(VENV)/.built
PYTEST := $(PY) -m pytest
PARALLEL := -n logical --maxprocesses=8 --dist worksteal
QUICK := not spark and not interop and not slow and not s3
PROTOC := $(VENV)/protoc/.installed
AZURITE := $(VENV)/azurite/.installed
BENCH := $(CURDIR)/bench

export VENV
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Most modules of the packages are never imported by tests: continuous integration leaves compiling to the imports.
COMPILE := $(if $(CI),--no-compile)
# Where the wheel's test finds the C code that was made from the same sources.
export LANCECY_CYTHON_CACHE := $(VENV)/cython
# Tests start hundreds of processes that import this package; bytecode files save compiling it each time.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo test check format protos bench screenshots compare chart compare-spark compare-types compare-write compare-sizes compare-engines compare-files compare-takes compare-changes compare-refs compare-indices compare-namespaces compare-remote compare-buckets docs asan fuzz model writers names old-releases old-namespaces old-indices hunt-nested hunt-filters hunt-indices hunt-dask hunt-spark wheel clean distclean
.DEFAULT_GOAL := help

help:
	@echo "make demo     a tour: write, change and scan a table over three bases, also with Dask and Spark"
	@echo "make test     the whole test suite, including Spark and interop with pylance"
	@echo "make check    the quick tests: style, types, layers, unit tests"
	@echo "make compare  measures lancecy, pylance and memory-mapped Arrow IPC in one run"
	@echo "make chart    the same for four file versions, and draws the chart of the README"
	@echo "make compare-spark  measures lancecy in Spark, Parquet, and pylance's table passed to Spark"
	@echo "make compare-types  measures scans, takes and filters of lancecy and pylance over all Arrow types"
	@echo "make compare-write  measures writes of lancecy and pylance: the same rows, and many appends of one row"
	@echo "make compare-sizes  sizes of files and times of lancecy and pylance, for 29 kinds of data that people keep"
	@echo "make compare-engines  measures queries by DuckDB and Polars over tables of lancecy, of pylance, and over Parquet"
	@echo "make compare-takes  measures takes by lancecy and pylance of rows at random, of many files and columns"
	@echo "make compare-files  measures first and later reads by lancecy and pylance of tables of many small files"
	@echo "make compare-changes  measures changes of a table by lancecy and pylance: deletes, updates, compaction, ..."
	@echo "make compare-refs  measures branches, clones and tags by lancecy and pylance, of 1 and of 10,000 fragments"
	@echo "make compare-namespaces  measures namespaces of lancecy and pylance, without tables and with 100,000"
	@echo "make compare-indices  measures look-ups through indices, and building these, by lancecy and pylance"
	@echo "make compare-remote  measures lancecy and pylance on an S3 server: time, requests and bytes, also with slow requests"
	@echo "make compare-buckets  measures reads and writes of a table on one and on three S3 servers with capped bandwidth"
	@echo "make model    tests many random histories of tables that lancecy and pylance change in turn"
	@echo "make writers  ten minutes of processes that append, upsert, delete and compact one table at once"
	@echo "make names    ten minutes of processes of lancecy and pylance that create, rename and drop the same names"
	@echo "make hunt-nested, hunt-filters, hunt-indices, hunt-dask, hunt-spark  generated tests, many of each: nested tables"
	@echo "              exchanged with pylance, filters against exact arithmetic, indices against plain scans, Dask and Spark"
	@echo "              queries against pandas and Spark"
	@echo "make old-releases  tests that pylance 0.20.0, 0.39.0 and 4.0.2 read what lancecy writes"
	@echo "make old-indices  tests that lancecy answers filters right by indices of pylance 0.20.0, 0.39.0 and 4.0.2"
	@echo "make old-namespaces  tests that namespaces of pylance 1.0.0, 2.0.0 and 4.0.2 share catalogs with lancecy's"
	@echo "make bench    runs the asv benchmarks of every layer"
	@echo "make asan     runs the tests of kernels, files and hostile bytes under gcc's sanitizers"
	@echo "make fuzz     fuzzes every decoder and parser with libFuzzer and the address sanitizer"
	@echo "make docs     runs the examples of the documentation and builds the site in build/docs"
	@echo "make screenshots  makes the pictures of the web page for the documentation"
	@echo "make wheel    builds source distribution and wheel in dist/"
	@echo "make format   formats the code and applies the linter's safe fixes"
	@echo "make clean    removes build products; make distclean also removes the virtual environment"

# ---- set-up -----------------------------------------------------------------------------------------

setup: $(BUILT)

$(INSTALLED): pyproject.toml setup.py
	.ci/setup venv "$(VENV)"
	@echo "installing lancecy and its development tools into $(VENV) (the first time takes a few minutes)"
	$(PY) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' > $(VENV)/build-requirements.txt
	$(PY) -m pip install --quiet -r $(VENV)/build-requirements.txt
	LANCECY_WITHOUT_KERNELS=1 PYTHONWARNINGS=ignore $(PY) -m pip install --quiet $(COMPILE) --no-build-isolation --editable '.[dev]'
	@touch $@

$(BUILT): $(INSTALLED) setup.py $(wildcard _ext/*.pyx _ext/*.pxd)
	$(PY) setup.py --quiet build_ext --inplace
	@touch $@

# The generator of lancecy/proto needs an old protobuf runtime, hence its own environment.
$(PROTOC): $(INSTALLED)
	.ci/setup protoc "$(VENV)/protoc"
	@touch $@

# The server of Azure Blob for the tests.
$(AZURITE): $(INSTALLED)
	.ci/setup azurite "$(VENV)/azurite" "$(PY)"
	@touch $@

# ---- everyday ---------------------------------------------------------------------------------------

demo: $(BUILT)
	.ci/with-java $(PY) bench/demo.py

test: $(BUILT) $(PROTOC) $(AZURITE)
	LANCECY_CHROMIUM="$$(.ci/setup chromium)" .ci/in-memory .ci/with-java $(PY) .ci/test.py $(ARGS)

# Generated tests make a quarter of the examples of make test.
check: $(BUILT) $(PROTOC)
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-check} .ci/in-memory $(PYTEST) -q -m "$(QUICK)" $(PARALLEL) $(ARGS)

format: $(BUILT)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

protos: $(PROTOC)
	$(VENV)/protoc/bin/python protos/generate.py

# ---- long tests -------------------------------------------------------------------------------------

model: $(BUILT)
	LANCECY_MODEL_EXAMPLES=$${LANCECY_MODEL_EXAMPLES:-200} LANCECY_MODEL_STEPS=$${LANCECY_MODEL_STEPS:-50} \
		$(PYTEST) -q -n 0 -o timeout=0 -o faulthandler_timeout=0 tests/changes/test_model.py $(ARGS)

writers: $(BUILT)
	LANCECY_WRITERS_SECONDS=$${LANCECY_WRITERS_SECONDS:-600} \
		$(PYTEST) -q -s -n 0 -o timeout=0 -o faulthandler_timeout=0 tests/changes/test_writers.py $(ARGS)
	LANCECY_STORE_COMMITS=$${LANCECY_STORE_COMMITS:-50} $(PYTEST) -q -n 0 -o timeout=0 -o faulthandler_timeout=0 \
		tests/durability/test_manifest_stores.py tests/interop/test_external_store.py -k "wherever_writers_die or eight_writers"

names: $(BUILT)
	LANCECY_NAMESPACE_SECONDS=$${LANCECY_NAMESPACE_SECONDS:-600} \
		$(PYTEST) -q -s -n 0 -o timeout=0 -o faulthandler_timeout=0 tests/namespace/test_races.py -k overlapping $(ARGS)

HUNT := $(PYTEST) -q -s -n 0 -o timeout=0 -o faulthandler_timeout=0

# To repeat one table: ARGS="--seed SEED --first NUMBER" and LANCECY_NESTED_TABLES=1.
hunt-nested: $(BUILT)
	$(PY) -m tests.interop.exchange --tables $${LANCECY_NESTED_TABLES:-10000} $(ARGS)

# LANCECY_FILTER_SEED is the first table; a failure names the table's seed and the filter's number.
hunt-filters: $(BUILT)
	LANCECY_FILTER_EXAMPLES=$${LANCECY_FILTER_EXAMPLES:-1000} LANCECY_FILTER_TABLES=$${LANCECY_FILTER_TABLES:-10} \
		$(HUNT) tests/expr/test_generated.py $(ARGS)

# LANCECY_INDEX_SEED is the first table; a failure names the table's seed, the query and the table's history.
hunt-indices: $(BUILT)
	LANCECY_INDEX_QUERIES=$${LANCECY_INDEX_QUERIES:-100000} LANCECY_INDEX_EACH=$${LANCECY_INDEX_EACH:-250} \
		$(HUNT) tests/index/test_index_queries.py $(ARGS)

hunt-dask: $(BUILT)
	LANCECY_DASK_QUERIES=$${LANCECY_DASK_QUERIES:-600} $(HUNT) tests/dask/test_queries.py $(ARGS)

hunt-spark: $(BUILT)
	LANCECY_SPARK_QUERIES=$${LANCECY_SPARK_QUERIES:-200} .ci/with-java $(HUNT) tests/spark/test_queries.py $(ARGS)

# Installs each release with pip below build/ on first use.
old-releases: $(BUILT)
	$(PY) -m tests.interop.old_releases build/old-releases $(ARGS)

old-namespaces: $(BUILT)
	$(PY) -m tests.interop.old_namespaces build/old-releases $(ARGS)

old-indices: $(BUILT)
	$(PY) -m tests.interop.old_indices build/old-releases $(ARGS)

# ---- measuring --------------------------------------------------------------------------------------

compare: $(BUILT)
	$(PY) bench/compare.py $(ARGS)

# Runs compare for four versions and draws the chart of the README.
chart: $(BUILT)
	for version in legacy 2.0 2.1 2.2; do $(PY) bench/compare.py --version $$version --json bench/.data/compare.json $(ARGS); done
	$(PY) bench/chart.py bench/.data/compare.json bench/speed.svg

compare-spark: $(BUILT)
	.ci/with-java $(PY) bench/spark_compare.py $(ARGS)

compare-types: $(BUILT)
	$(PY) bench/compare_types.py $(ARGS)

compare-write: $(BUILT)
	$(PY) bench/write_compare.py $(ARGS)

compare-sizes: $(BUILT)
	$(PY) bench/compare_sizes.py $(ARGS)

compare-engines: $(BUILT)
	$(PY) bench/compare_engines.py $(ARGS)

compare-changes: $(BUILT)
	$(PY) bench/compare_changes.py $(ARGS)

compare-files: $(BUILT)
	$(PY) bench/compare_files.py $(ARGS)

compare-takes: $(BUILT)
	$(PY) bench/compare_takes.py $(ARGS)

compare-refs: $(BUILT)
	$(PY) bench/compare_refs.py $(ARGS)

compare-namespaces: $(BUILT)
	$(PY) bench/compare_namespaces.py $(ARGS)

compare-indices: $(BUILT)
	$(PY) bench/compare_indices.py $(ARGS)

compare-remote: $(BUILT)
	$(PY) bench/compare_remote.py $(ARGS)

compare-buckets: $(BUILT)
	.ci/with-java $(PY) bench/compare_buckets.py $(ARGS)

# asv stores a description of the machine in the home directory, hence its own HOME. Without a commit it stores no results.
bench: $(BUILT)
	mkdir -p $(BENCH)/.asv
	cd bench && HOME=$(BENCH)/.asv $(PY) -m asv machine --yes >/dev/null
	cd bench && HOME=$(BENCH)/.asv $(PY) -m asv run --python=same --set-commit-hash $$(git rev-parse HEAD) -a rounds=1 -a warmup_time=0.1 -a sample_time=0.02 --show-stderr $(ARGS)

# ---- hostile bytes ----------------------------------------------------------------------------------

# Needs gcc; ARGS are pytest's, for example ARGS="-x tests/kernels". The usual kernels are not changed.
asan: $(BUILT)
	$(PY) -m tests.fuzz.asan $(ARGS)

# Needs gcc and a Python for which atheris has a wheel; ARGS="--runs 100000 manifest" selects targets.
fuzz: $(BUILT)
	$(PY) -m pip install --quiet atheris
	$(PY) -m tests.fuzz.all $(ARGS)

# ---- documentation ----------------------------------------------------------------------------------

docs: $(BUILT)
	.ci/with-java $(PYTEST) -q tests/meta/test_docs_site.py $(ARGS)
	$(PY) -m sphinx -W --keep-going -q -b html .docs build/docs
	@echo "open build/docs/index.html"

# Needs Chromium, which is installed if it is missing.
screenshots: $(BUILT)
	LANCECY_CHROMIUM="$$(.ci/setup chromium)" $(PY) bench/screenshots.py

# ---- building ---------------------------------------------------------------------------------------

wheel: $(BUILT)
	$(PY) -m build --no-isolation

clean:
	rm -rf build dist demo-data bench/.asv *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf spark-warehouse metastore_db derby.log
	rm -f lancecy/kernels/*.so $(BUILT)
	find lancecy tests bench protos -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf "$(VENV)"
