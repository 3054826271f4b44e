# make | make demo | make test | make bench | make plots | make model | make install PREFIX=/usr/local
# More: tamper gpu-kit gpu-check deps check sanitize fuzz fuzz-short soak lint clean. `make test` is `make deps` (installs what is missing) and `make check`.
# V=1 shows the commands.
PREFIX ?= /usr/local
BUILD ?= build
ifeq ($(origin CC),default)
CC := gcc
endif
OPT ?= -O3 -g
EXTRA ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
FUZZ_RUNS ?= 100000
FUZZ_SECONDS ?= 300
SOAK_SECONDS ?= 600

Q := $(if $(V),,@)
# make -s is silent.
quiet := $(V)$(findstring s,$(firstword -$(MAKEFLAGS)))
say = @$(if $(quiet),:,echo '  $(1) $@')

CPPFLAGS := -I. -D_GNU_SOURCE -MMD -MP
CFLAGS := -std=c11 -Wall -Wextra -Werror -ffp-contract=off -pthread $(OPT) $(EXTRA)
LDFLAGS := -Wl,--as-needed
LIBS := -lcjson -lcsv -lpcre2-8 -lutf8proc -lm
BLAS := -lopenblas

# Kernels are compiled once per instruction set: engine/cpu/kernels_*.c, chosen at run time.
KERNELS := $(wildcard engine/cpu/kernels_*.c)
ISAS := avx2 avx2vnni avx512 avx512vnni avx512bf16
ISA_FLAGS_avx2 := -mavx2 -mfma -mf16c
ISA_FLAGS_avx2vnni := $(ISA_FLAGS_avx2) -mavxvnni
ISA_FLAGS_avx512 := $(ISA_FLAGS_avx2) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512
ISA_FLAGS_avx512vnni := $(ISA_FLAGS_avx512) -mavx512vnni
ISA_FLAGS_avx512bf16 := $(ISA_FLAGS_avx512vnni) -mavx512bf16

# Everything but the two main files is one library; tests and fuzzers link it as the programs do.
SOURCES := $(wildcard engine/*.c engine/base/*.c engine/load/*.c engine/kv/*.c engine/sched/*.c engine/null/*.c \
             engine/cpu/*.c roofline/*.c bench/*.c bench/report/*.c) engine/cuda/open.c engine/cuda/cover.c
LIB_SOURCES := $(filter-out $(KERNELS) roofline/kvcalc.c bench/main.c,$(SOURCES))
LIB_OBJECTS := $(LIB_SOURCES:%.c=$(BUILD)/%.o) $(foreach i,$(ISAS),$(KERNELS:%.c=$(BUILD)/%.$(i).o))
TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/test_*.c))
FUZZERS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))

all: kvbench kvcalc
kvbench kvcalc kvbench-cuda.so: %: $(BUILD)/% FORCE
	@cmp -s $< $@ || cp -f $< $@
$(BUILD)/kvbench: $(BUILD)/bench/main.o $(BUILD)/libkvbench.a
	$(call say,link)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS) $(BLAS) -o $@
$(BUILD)/kvcalc: $(BUILD)/roofline/kvcalc.o $(BUILD)/libkvbench.a
	$(call say,link)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS) -o $@
$(BUILD)/libkvbench.a: $(LIB_OBJECTS)
	$(call say,ar  )
	@rm -f $@
	$(Q)ar rcs $@ $^

# Files that change only when what they hold does, so that what depends on them is never stale and seldom rebuilt.
VERSION := $(shell git -c safe.directory='*' describe --always --dirty 2>/dev/null || echo unknown)
keep = @mkdir -p $(@D); echo '$(1)' | cmp -s - $@ || echo '$(1)' > $@
$(BUILD)/version: FORCE
	$(call keep,$(VERSION))
$(BUILD)/flags: FORCE
	$(call keep,$(CC) $(CFLAGS))
$(BUILD)/engine/base/version.o: CPPFLAGS += -DKVBENCH_VERSION='"$(VERSION)"'
$(BUILD)/engine/base/version.o: $(BUILD)/version

# Text files that a source includes as string literals.
PAGE := $(addprefix $(BUILD)/bench/report/,page.html.inc result.html.inc page.css.inc page.js.inc)
$(PAGE): $(BUILD)/%.inc: %
	@mkdir -p $(@D)
	@sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $< > $@
$(BUILD)/bench/report/page.o: CPPFLAGS += -I$(BUILD)
$(BUILD)/bench/report/page.o: $(PAGE)

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,cc  )
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@
define isa_rule
$$(BUILD)/%.$(1).o: %.c $$(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call say,cc  )
	$$(Q)$$(CC) $$(CPPFLAGS) $$(filter-out $$(KERNELS_WITHOUT),$$(CFLAGS)) $$(ISA_FLAGS_$(1)) -DISA=$(1) -c $$< -o $$@
endef
$(foreach i,$(ISAS),$(eval $(call isa_rule,$(i))))
$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(BUILD)/libkvbench.a
	$(call say,link)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS) $(BLAS) -lcmocka -o $@
$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/libkvbench.a
	$(call say,link)
	$(Q)$(CC) $(CFLAGS) -fsanitize=fuzzer $(LDFLAGS) $^ $(LIBS) $(BLAS) -o $@

include engine/cuda/cuda.mk engine/cuda/device.mk

# One more make in the same folder, with another build folder or in parallel.
AGAIN = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))
SANITIZE := -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
# Parsers are fuzzed: kernels are linked, not run, and go without what takes minutes to compile.
FUZZ = $(AGAIN) CC=clang BUILD=build-fuzz OPT="-O1 -g" EXTRA="$(SANITIZE) -fsanitize=fuzzer-no-link" KERNELS_WITHOUT="$(SANITIZE) -fsanitize=fuzzer-no-link"

deps:
	@tools/deps.sh
test: deps
	@$(AGAIN) check
check: all $(TESTS) $(CUDA_TESTS) $(CUDA_PROGRAMS) $(TSAN_TESTS)
	@tools/test.sh $(BUILD) $(TESTS) $(CUDA_TESTS) $(TSAN_TESTS)
sanitize:
	@$(AGAIN) BUILD=build-san OPT="-O1 -g" EXTRA="$(SANITIZE)" check-sanitized
check-sanitized: $(BUILD)/kvbench $(BUILD)/kvcalc $(TESTS) $(CUDA_TESTS) $(CUDA_PROGRAMS)
	@KVBENCH_SANITIZED=1 tools/test.sh $(BUILD) $(TESTS) $(CUDA_TESTS)
fuzz-short:
	@$(FUZZ) FUZZ_ARGS="-runs=$(FUZZ_RUNS) -max_total_time=7 -seed=1" run-fuzzers
fuzz:
	@$(FUZZ) FUZZ_ARGS="-max_total_time=$(FUZZ_SECONDS)" run-fuzzers
soak:
	@$(FUZZ) run-soak
run-soak: $(FUZZERS)
	@tools/soak.sh $(SOAK_SECONDS) $(FUZZERS)
run-fuzzers: $(FUZZERS)
	@tools/fuzz.sh "$(FUZZ_ARGS)" $(FUZZERS)
lint:
	@tools/lint.sh
demo: deps
	@$(AGAIN) all
	@tools/demo.sh
bench: all
	@./kvbench bench $(BENCH_ARGS)
plots:
	@tools/plots.sh
model:
	@tools/fetch_model.sh
tamper: all
	@tools/tamper.sh
readme: all
	@tools/readme.sh
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/kvbench
	install kvbench kvcalc $(DESTDIR)$(PREFIX)/bin
	cp -R configs $(DESTDIR)$(PREFIX)/share/kvbench
	$(if $(CUDA_PLUGIN),install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/kvbench $(CUDA_PLUGIN))
clean:
	rm -rf build build-san build-fuzz kvbench kvcalc kvbench-cuda.so

FORCE:
.PHONY: all gpu-kit gpu-check deps test check sanitize check-sanitized fuzz fuzz-short run-fuzzers soak run-soak lint demo bench plots model tamper readme install clean FORCE
.SECONDARY:
.DELETE_ON_ERROR:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
