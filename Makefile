# make demo | test | test-torch | extended | benches | benches-sampled | engine | contracts | xrt | bench | fuzz | opinfo | reports | endurance | sanitize | lint | tidy | docs | notebooks | format |
# wheel | models | quantised | transformers | executorch | ray | soc | soc-graphs | soak | clean; each installs into a virtual environment of its own first.
#
#   VENV=DIR         another virtual environment (.venv)
#   PYTHON=python3   the interpreter that makes it
#   TORCH_INDEX=URL  another index for torch, such as https://download.pytorch.org/whl/cpu, whose wheel is the smallest
#   TORCH=2.15.0     the version of torch that `make test-torch` runs, in a virtual environment of its own
#   PART=1/3         of `make extended`, `benches` and `contracts`: of three parts the first
#   JOBS=2           processes that `make test` runs
#   EXAMPLES=2000 SEED=0   of `make fuzz`
#   XRT_EXAMPLES=250       of `make xrt`, for each of two ways
#   OPINFO="--dtype int64"   what `make opinfo` runs, see `python -m tests.opinfo --help`
#   SOAK_SECONDS=600       of `make soak`
#   PEERS=all        `make bench` installs onnxruntime and openvino and compares with them too
#   BENCH="models --only resnet18"   what `make bench` measures; everything if empty

VENV ?= .venv
PYTHON ?= python3
TORCH_INDEX ?=
TORCH ?= 2.15.0
JOBS ?= 2
PART ?= 1/1
EXAMPLES ?= 2000
XRT_EXAMPLES ?= 250
SEED ?= 0
OPINFO ?= --everything
PEERS ?=
BENCH ?=
SOAK_SECONDS ?= 600

bin := $(VENV)/bin
pip := $(bin)/python -m pip --disable-pip-version-check
installed := $(VENV)/.installed
xrt_models := tests/driver/test_xrt_models.py
soc_graphs := examples/soc/graphs/temporal_mitigation.json
# What the native module is built from; Python sources are used where they lie.
cpp := $(shell find fpga_dynamo/native hls_kernels -name '*.cpp' -o -name '*.hpp' -o -name '*.h' 2>/dev/null)
native := CMakeLists.txt $(cpp)
# The extension of device 'fpga' and the backend of executorch, which are compiled at their first use.
device_cpp := $(wildcard fpga_dynamo/device/cpp/*.[ch]pp fpga_dynamo/executorch/*.cpp)

torch_venv := .venv-torch-$(TORCH)
torch_pip := $(torch_venv)/bin/python -m pip --disable-pip-version-check install -q -c $(torch_venv)/constraints.txt
torch_tests := $(addprefix tests/,backend/test_torch_versions.py backend/test_direct_calls.py backend/test_frames.py \
    backend/test_rare_programs.py backend/test_double_backward.py backend/test_training.py compile_cache/test_warm_start.py \
    compile_cache/test_aot_compile.py quantize/test_requirement.py quantize/test_on_card.py test_estimate.py)

.PHONY: setup demo test test-torch extended benches benches-sampled engine contracts xrt xrt-only xrt-installed bench fuzz opinfo reports endurance sanitize soc soc-graphs soak recipes card-server lint tidy docs notebooks format wheel models quantised transformers executorch ray clean
.DELETE_ON_ERROR:

setup: $(installed)

$(installed): constraints.txt pyproject.toml $(native)
	@PYTHON=$(PYTHON) .ci/missing --explain
	# Also where a former attempt has left an environment without pip, for want of python3-venv.
	$(bin)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	$(pip) install -q -c constraints.txt $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch==2.13.0
	$(pip) install -q -c constraints.txt scikit-build-core nanobind cmake ninja
	$(pip) install -q -c constraints.txt --no-build-isolation -e '.[test]'
	# Last, or pip complains at each later step that torchvision asks for another torch. Of hls4ml the tests use files only.
	$(pip) install -q -c constraints.txt --no-deps torchvision hls4ml
	touch $@

demo: $(installed)
	$(bin)/python -m examples.demo

test: lint
	$(bin)/python -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations=25 -m 'not slow and not alone' tests
	$(bin)/python -m pytest -q -m alone tests/driver

# What depends on PyTorch's private names, with another version of torch: see docs/torch-versions.md.
test-torch: $(torch_venv)/.installed
	$(torch_venv)/bin/python -m pytest -q -n $(JOBS) --dist loadfile --durations=10 -m 'not slow' $(torch_tests)
	$(torch_venv)/bin/fpga-dynamo fuzz --examples 40 --seed $(SEED)

# 30 GB: pip keeps the wheels that it unpacks, so each byte lies there twice, and in its cache.
$(torch_venv)/.installed: constraints.txt pyproject.toml $(native)
	@free=$$(df -Pk . | awk 'NR == 2 {print int($$4 / 1048576)}'); [ $$free -ge 30 ] || { \
	    echo "make test-torch: torch $(TORCH) is a CUDA build of some gigabytes and needs 30 GB, but $$free GB are free"; exit 1; }
	@echo "installing torch $(TORCH) into $(torch_venv); from PyPI it is a CUDA build of some gigabytes"
	test -x $(torch_venv)/bin/python || $(PYTHON) -m venv $(torch_venv)
	sed 's/^torch==.*/torch==$(TORCH)/' constraints.txt > $(torch_venv)/constraints.txt
	$(torch_pip) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch==$(TORCH)
	$(torch_pip) scikit-build-core nanobind cmake ninja
	$(torch_pip) --no-build-isolation -C build-dir=$(abspath $(torch_venv))/build -e '.[test]' scikit-learn pillow
	$(torch_pip) --no-deps torchvision
	touch $@

# What `make test` tests with a few cases, with more of them; `.ci/run` runs a part.
extended: $(installed)
	$(bin)/python -m pytest -q -n $(JOBS) --durations=25 -m extended --part $(PART) tests

# The test benches of the cores as synthesis sees them: all cases, in both C++ standards, at every tile shape.
benches: $(installed)
	$(bin)/python -m pytest -q -n $(JOBS) --dist loadfile --durations=10 --part $(PART) -m 'slow and not sampled' tests/hls_kernels

# A tenth of their cases at all tile shapes, and all of those of the emulator's shape.
benches-sampled: $(installed)
	$(bin)/python -m pytest -q --durations=5 -m sampled --part $(PART) tests/hls_kernels

# All of the hardware engine: random shapes and mistakes by thousands, networks on three platforms beside the cost model.
engine: $(installed)
	$(bin)/python -m pytest -q -n $(JOBS) --dist loadfile --durations=10 -m slow tests/hls_kernels/test_engine.py \
	    tests/hls_kernels/test_engine_vector.py tests/hls_kernels/test_engine_networks.py \
	    tests/hls_kernels/test_engine_units.py tests/lowering/test_engine_shared.py tests/backend/test_engines_together.py
	$(bin)/python -m benchmarks.engine
	$(bin)/python -m benchmarks.engine --platform u250 --cus 4

# All that goes through AMD's XRT, over every way that this machine has: no card is needed.
xrt: xrt-only
	$(bin)/python -m pytest -q -m 'not slow' tests/driver/test_conformance.py tests/driver/test_xrt_faults.py $(xrt_models)

# Of that, what is no part of `make test`.
xrt-only: xrt-installed
	$(bin)/python -m pytest -q -m slow $(xrt_models)
	FPGA_DYNAMO_DRIVER=xrt FPGA_DYNAMO_XRT=inproc $(bin)/python -m pytest -q tests/backend/test_concurrency.py
	FPGA_DYNAMO_DRIVER=xrt FPGA_DYNAMO_XRT=inproc $(bin)/fpga-dynamo fuzz --examples $(XRT_EXAMPLES) --seed $(SEED)
	FPGA_DYNAMO_DRIVER=xrt FPGA_DYNAMO_XRT=process setsid --wait \
	    $(bin)/fpga-dynamo fuzz --examples $(XRT_EXAMPLES) --seed $(SEED)

xrt-installed: $(installed)
	@$(bin)/python -c 'import fpga_dynamo._xrt' 2>/dev/null || { \
	    echo "make xrt: fpga_dynamo was installed without XRT. On Debian 12: apt-get install libxrt1 libxrt-dev uuid-dev,"; \
	    echo "then rm $(installed) and make xrt again; \`$(bin)/fpga-dynamo doctor\` says more."; exit 1; }

lint: $(installed)
	$(bin)/ruff check .
	$(bin)/mypy
	$(bin)/lint-imports
	$(bin)/clang-format --dry-run --Werror $(cpp) $(device_cpp)
	$(bin)/python -m tests.private_torch fpga_dynamo hls_kernels xclbin_build benchmarks examples
	$(bin)/python -m tests.prose
	$(bin)/codespell

# clang-tidy over the C++ of both: minutes, so it is no part of `make lint`; .ci/run runs it.
tidy: $(installed)
	$(bin)/python -m tests.tidy

# The tutorials as Jupyter notebooks, in out/notebooks; `make extended` runs their cells.
notebooks: $(installed)
	$(bin)/python -m tests.notebooks out/notebooks

# The site of the documentation, in out/site; a broken link or anchor fails.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build
	$(bin)/python -m pytest -q -n $(JOBS) --durations=5 -m documentation tests/test_docs.py

$(VENV)/.docs: $(installed)
	$(pip) install -q -c constraints.txt --no-build-isolation -e '.[docs]'
	touch $@

# What the linters of `make lint` mend by themselves.
format: $(installed)
	$(bin)/ruff check --fix .
	$(bin)/clang-format -i $(cpp) $(device_cpp)

# Every board's own recipe: its loops beside their contracts, and whether it fits.
contracts: $(installed)
	$(bin)/python -m pytest -q -n $(JOBS) --part $(PART) tests/xclbin_build/check/test_contracts.py \
	    tests/xclbin_build/estimate/test_recipes.py

# The native module under AddressSanitizer and UndefinedBehaviorSanitizer, the device model under ThreadSanitizer too.
sanitize: $(installed)
	$(bin)/python -m tests.sanitize
	$(bin)/python -m pytest -q -m slow tests/driver/test_driver_sanitizer.py

# The wheel: built, installed into an environment of its own, and used far from this checkout.
wheel: $(installed)
	$(bin)/python -m pytest -q -m slow tests/test_wheel.py

# FUZZ: more options, e.g. "--dtype bfloat16", "--dtype int8" or "--winograd 4".
fuzz: $(installed)
	$(bin)/fpga-dynamo fuzz --examples $(EXAMPLES) --seed $(SEED) $(FUZZ)

# PyTorch's databases of samples of its ops and modules.
opinfo: $(installed)
	$(bin)/python -m tests.opinfo $(OPINFO)

# Public bug reports of torch.compile backends; writes docs/evaluation/public-reports.md.
reports: $(installed)
	$(bin)/python -m tests.reports --page docs/evaluation/public-reports.md

# Processes of their own, memory over thousands of calls and of steps on the device, thousands of forged cache entries, exceptions at every bytecode.
endurance: $(installed)
	$(bin)/python -m pytest -q -m slow tests/backend tests/compile_cache tests/device tests/runtime

# Every network of the README's tables; writes those tables.
models: $(installed)
	mkdir -p out
	$(bin)/python -m pytest -q -m slow tests/models/test_models.py tests/models/test_vision.py --offload-table out/offload.md
	cat out/offload.md

# Five networks under three quantizers, and a harder task quantized in four ways; writes the tables of docs/evaluation/int8.md.
quantised: $(installed)
	$(bin)/python -m pytest -q -m slow tests/quantize
	cat out/quantised.md out/characters.md

# Models of transformers, which this installs.
transformers: $(VENV)/.transformers
	$(bin)/python -m pytest -q -s -m slow tests/models/test_transformers.py tests/models/test_families.py

$(VENV)/.transformers: $(installed)
	$(pip) install -q -c constraints.txt --no-build-isolation -e '.[transformers]'
	touch $@

# Models whose parts executorch gives to the card. Of executorch's requirements only those that are imported are installed.
executorch: $(VENV)/.executorch
	$(bin)/python -m pytest -q -m slow tests/executorch
	$(bin)/python -m pytest -q -k executorch.md tests/test_docs.py

$(VENV)/.executorch: $(installed)
	$(pip) install -q -c constraints.txt --no-deps executorch flatbuffers ruamel.yaml tabulate
	touch $@

# Replicas of a served model, sweeps and random models on two nodes of a Ray cluster.
ray: $(VENV)/.ray
	$(bin)/python -m pytest -q -m slow tests/serving/test_ray.py tests/test_ray_commands.py

$(VENV)/.ray: $(installed)
	$(pip) install -q -c constraints.txt --no-build-isolation -e '.[ray]'
	touch $@

# The study of docs/evaluation/soc.md: task graphs if they are not there, sweep, report, figures, tables. `make soc-graphs`
# makes the task graphs again; nothing in them is measured on the host.
soc: $(installed) $(soc_graphs)
	$(bin)/fpga-dynamo soc sweep examples/soc --out out/soc
	$(bin)/fpga-dynamo soc report out/soc --figures out/soc/figures
	cp $(addprefix out/soc/figures/,response-by-policy.svg execution-by-application.svg fronts.svg) docs/soc
	$(bin)/python -m examples.soc.page out/soc docs/evaluation/soc.md

soc-graphs: $(installed)
	$(bin)/python -m examples.soc.make_graphs

# The last one that is written.
$(soc_graphs): | $(installed)
	$(bin)/python -m examples.soc.make_graphs

# Eight applications in real time for so long: none is lost, nothing leaks.
soak: $(installed)
	SOAK_SECONDS=$(SOAK_SECONDS) $(bin)/python -m pytest -q -m slow tests/soc

# The search of an engine for whole networks, against all engines of a small space.
recipes: $(installed)
	$(bin)/python -m pytest -q -m slow tests/test_recipe_networks.py

# The card server in C++: exported, for Arm under qemu, over XRT, under sanitizers.
card-server: $(installed)
	$(bin)/python -m pytest -q -m slow tests/card_server

bench: $(installed) $(if $(filter all,$(PEERS)),$(VENV)/.peers)
	$(bin)/python -m benchmarks --out out/bench --history benchmarks/history $(BENCH)
	$(bin)/python -m benchmarks.medians

$(VENV)/.peers: $(installed)
	$(pip) install -q -c constraints.txt --no-build-isolation -e '.[bench]'
	touch $@

clean:
	rm -rf build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis
