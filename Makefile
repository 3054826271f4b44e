# kvbench: make | make demo | make test | make plots | make model | make install PREFIX=/usr/local
# Debian and Ubuntu packages and why each is here:
#   libopenblas-dev  large f32 matrix products     libcjson-dev     JSON            libcsv-dev  CSV
#   libpcre2-dev     tokenizer splitting patterns  libutf8proc-dev  Unicode NFC     gnuplot-nox pictures
#   libcmocka-dev    tests                         clang, clang-format, libclang-rt: fuzzers and lint
PACKAGES := gcc make pkg-config git libopenblas-dev libcjson-dev libcsv-dev libpcre2-dev libutf8proc-dev libcmocka-dev gnuplot-nox
PREFIX ?= /usr/local
BUILD ?= build
CC ?= gcc
OPT ?= -O3 -g
VERSION := $(shell git describe --always --dirty 2>/dev/null || echo unknown)

CPPFLAGS := -I. -D_GNU_SOURCE -MMD -MP
$(BUILD)/bench/%.o: CPPFLAGS += -DKVBENCH_VERSION=\"$(VERSION)\"
CFLAGS := -std=c11 -Wall -Wextra -Werror -ffp-contract=off -pthread $(OPT) $(EXTRA)
LIBS := -lcjson -lcsv -lpcre2-8 -lutf8proc -lm -lpthread
BLAS := -lopenblas

# Kernel sources that are compiled once per instruction set: engine/cpu/kernel_NAME.c for each ISA below.
ISA_FLAGS_avx2 := -mavx2 -mfma -mf16c
ISA_FLAGS_avx512 := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512bf16 -mprefer-vector-width=512

ENGINE := $(wildcard engine/*.c engine/base/*.c engine/load/*.c engine/kv/*.c engine/sched/*.c engine/null/*.c)
CPU := $(wildcard engine/cpu/*.c)
ROOFLINE := $(filter-out roofline/kvcalc.c,$(wildcard roofline/*.c))
BENCH := $(filter-out bench/main.c,$(wildcard bench/*.c))
LIB_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(ENGINE) $(filter-out $(wildcard engine/cpu/kernels_*.c),$(CPU)) $(ROOFLINE) $(BENCH))
KERNEL_OBJ := $(foreach i,avx2 avx512,$(patsubst %.c,$(BUILD)/%.$(i).o,$(wildcard engine/cpu/kernels_*.c)))
TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))

all: kvbench kvcalc
kvbench: $(BUILD)/bench/main.o $(BUILD)/libkvbench.a
	$(CC) $(CFLAGS) $^ $(LIBS) $(BLAS) -o $@
kvcalc: $(BUILD)/roofline/kvcalc.o $(BUILD)/libkvbench.a
	$(CC) $(CFLAGS) $^ $(LIBS) -o $@
$(BUILD)/libkvbench.a: $(LIB_OBJ) $(KERNEL_OBJ)
	rm -f $@ && ar rcs $@ $^
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@
define isa_rule
$(BUILD)/%.$(1).o: %.c
	@mkdir -p $$(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(ISA_FLAGS_$(1)) -DISA=$(1) -c $$< -o $$@
endef
$(foreach i,avx2 avx512,$(eval $(call isa_rule,$(i))))
$(BUILD)/tests/%: tests/%.c $(BUILD)/libkvbench.a
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $< $(BUILD)/libkvbench.a $(LIBS) $(BLAS) -lcmocka -o $@
check: kvbench kvcalc $(TESTS)
	@for t in $(TESTS); do $$t || exit 1; done
clean:
	rm -rf $(BUILD) kvbench kvcalc

.PHONY: all check clean
.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
