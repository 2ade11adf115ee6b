# SPDX-License-Identifier: Apache-2.0
# Short names for what meson, ninja and the scripts do. `./dev TARGET` installs what they need first.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 600
SOAK_SEQUENCES ?= 1000

# One build with clang serves three ends: its warnings, ASan with UBSan, and libFuzzer.
CLANG := $(BUILD)-clang
CLANG_FLAGS := -fsanitize=fuzzer-no-link -fno-sanitize-recover=all -gline-tables-only
ANALYZER := $(BUILD)-analyzer
TALLY := $(BUILD)/tally.json
BEHIND_TALLY := $(BUILD)/behind-tally.json
RUN := tests/run --json $(TALLY)
RUN_BEHIND := tests/run --json $(BEHIND_TALLY)

export UBSAN_OPTIONS = print_stacktrace=1

.PHONY: all run check check-wide asan fuzz soak vm lint messages bench install uninstall package tarball clean behind with-tests with-clang openssl

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

run: all
	$(BUILD)/sandboxer canary

# Goes on after a failure, so that one run shows them all; the last line decides. Tests mostly wait: behind them, with
# what they leave of the processors, runs what only computes. Its results are shown, and counted, when both are done.
check:
	@mkdir -p $(BUILD) && rm -f $(TALLY) $(BEHIND_TALLY)
	@$(RUN) --step self-tests sh -c 'tests/run --self-test && tools/layers --self-test && tools/prose --self-test'; true
	@$(RUN) --step 'build with gcc' $(MAKE) with-tests; true
	@nice -n 19 $(MAKE) behind >$(BUILD)/behind.log 2>&1 & behind=$$!; \
		$(RUN) --build $(BUILD); \
		wait $$behind; ended=$$?; cat $(BUILD)/behind.log; $(RUN) --merge $(BEHIND_TALLY); \
		[ $$ended -eq 0 ] || $(RUN) --step 'all that runs behind the tests' sh -c "exit $$ended"; true
	@$(RUN) --build $(CLANG) --only unit,fuzz --fuzz-seconds 3; true
	@tests/run --sum $(TALLY)

# Adds to the tally of `check`.
check-wide: all
	@$(RUN) --build $(BUILD) --only wide -j 1 --timeout 1500

behind:
	@$(RUN_BEHIND) --step 'build with clang' $(MAKE) with-clang; true
	@$(MAKE) $(ANALYZER)/build.ninja; true
	@for check in licence layers prose format cppcheck tidy analyzer; do \
		TIDY_NODES=20000 $(RUN_BEHIND) --step "lint: $$check" tools/lint $(BUILD) $$check; done; true

asan: with-clang
	@tests/run --build $(CLANG) --only unit,fuzz --fuzz-seconds 1

fuzz: with-clang
	@tests/run --build $(CLANG) --only fuzz --fuzz-seconds $(FUZZ_SECONDS)
	@BUILD=$(abspath $(CLANG)) FUZZ_SECONDS=$(FUZZ_SECONDS) SEED=$$(date +%s) tests/e2e/test_http_peers.py what_we_take

soak: with-tests
	@SOAK=1 tests/run --build $(BUILD) --only unit -k sandbox-test_many
	@BUILD=$(abspath $(BUILD)) SOAK_SECONDS=$(SOAK_SECONDS) tests/soak
	@BUILD=$(abspath $(BUILD)) SCALE_BOXES=1000 tests/e2e/test_egress_scale.py
	@BUILD=$(abspath $(BUILD)) FUZZ_SECONDS=$(SOAK_SECONDS) SEED=$$(date +%s) tests/e2e/test_egress_judge.py an_explanation
	@BUILD=$(abspath $(BUILD)) HALF_OPEN=15000 tests/e2e/test_egress_slow.py more_half_open_connections_than_may_be
	@BUILD=$(abspath $(BUILD)) tests/model/test_points.py --every
	@BUILD=$(abspath $(BUILD)) tests/model/test_integrity.py --rounds $(SOAK_SEQUENCES) --seed $$(date +%s)
	@BUILD=$(abspath $(BUILD)) tests/model/test_workspaces.py --stories $(SOAK_SEQUENCES) --seed $$(date +%s)
	@BUILD=$(abspath $(BUILD)) tests/model/test_sequences.py --sequences $(SOAK_SEQUENCES) --seed $$(date +%s)

vm: with-tests
	@BUILD=$(abspath $(BUILD)) tests/vm/run
	@BUILD=$(abspath $(BUILD)) tests/vm/systemd

lint: with-clang $(ANALYZER)/build.ninja
	@tools/lint $(BUILD)

# All error messages of the programs on one page, for a review.
messages:
	@mkdir -p $(BUILD) && tools/prose --messages src >$(BUILD)/messages.md && echo $(BUILD)/messages.md

bench: all
	BUILD=$(abspath $(BUILD)) bench/run
	BUILD=$(abspath $(BUILD)) bench/daemon
	BUILD=$(abspath $(BUILD)) bench/storage
	BUILD=$(abspath $(BUILD)) bench/egress
	BUILD=$(abspath $(BUILD)) bench/e2b

install: $(BUILD)/build.ninja
	@meson configure $(BUILD) -Dprefix=$(PREFIX)
	@ninja -C $(BUILD) --quiet
	DESTDIR=$(DESTDIR) meson install -C $(BUILD) --no-rebuild

uninstall: $(BUILD)/build.ninja
	@meson configure $(BUILD) -Dprefix=$(PREFIX)
	@ninja -C $(BUILD) --quiet build.ninja
	@tools/uninstall $(BUILD) $(DESTDIR)

package:
	@tools/package $(BUILD)/package

tarball:
	@tools/tarball $(BUILD)/package

clean:
	rm -rf $(BUILD) $(CLANG) $(ANALYZER)

with-tests: $(BUILD)/build.ninja
	@meson configure $(BUILD) -Dtests=true
	@ninja -C $(BUILD) --quiet

with-clang: $(CLANG)/build.ninja
	@ninja -C $(CLANG) --quiet

# meson runs it too, but is silent for as long as it takes.
openssl:
	@tools/openssl35 >/dev/null

$(BUILD)/build.ninja $(CLANG)/build.ninja $(ANALYZER)/build.ninja: | openssl

$(BUILD)/build.ninja:
	@meson setup $(BUILD) -Dtests=false

$(CLANG)/build.ninja:
	@CC=clang meson setup $(CLANG) -Dsmall_libc=false -Dfuzz=true -Db_lundef=false \
		-Db_sanitize=address,undefined -Doptimization=1 -Dc_args='$(CLANG_FLAGS)'

$(ANALYZER)/build.ninja:
	@CC=gcc meson setup $(ANALYZER) -Dsmall_libc=false -Dtests=false -Ddebug=false -Dc_args=-fanalyzer
