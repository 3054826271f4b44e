# The CUDA backend: a plug-in of its own, where nvcc is; CUDA=0 leaves it out. Its host files and kernels are also built for
# the CPU, against the emulator in tests/cuda.
NVCC ?= $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
CUDA ?= $(if $(NVCC),1,0)
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
CUDA_PLUGIN := $(if $(filter 1,$(CUDA)),kvbench-cuda.so)
all: $(CUDA_PLUGIN)
CUDA_HOST := $(filter-out engine/cuda/open.c engine/cuda/cover.c,$(wildcard engine/cuda/*.c))
CUDA_KERNELS := $(wildcard engine/cuda/*.cu)
# cupti_profiler_host.h of 13.0 includes C++'s <string>, of which it uses nothing: C finds an empty one.
CUDA_INCLUDE := -isystem engine/cuda/compat -isystem $(CUDA_HOME)/include
CUDA_ARCHS := 80 90 100
EMU_OBJECTS := $(CUDA_HOST:%.c=$(BUILD)/emu/%.o) $(CUDA_KERNELS:%.cu=$(BUILD)/emu/%.cu.o) \
               $(patsubst %.c,$(BUILD)/emu/%.o,$(wildcard tests/cuda/emu_*.c))
CUDA_TESTS := $(if $(filter 1,$(CUDA)),$(patsubst %.c,$(BUILD)/%,$(wildcard tests/cuda/test_*.c)))
$(BUILD)/emu/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,cc  )
	$(Q)$(CC) $(CPPFLAGS) $(CUDA_INCLUDE) $(CFLAGS) -c $< -o $@
$(BUILD)/emu/%.cu.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,c++ )
	$(Q)$(CXX) $(CPPFLAGS) -isystem $(CUDA_HOME)/include -DCUDA_EMULATOR='"tests/cuda/emu_device.h"' -x c++ -std=c++17 -fno-strict-aliasing -Wall -Wextra -Werror $(OPT) $(EXTRA) -c $< -o $@
$(BUILD)/tests/cuda/test_cuda_planted: $(BUILD)/emu/tests/cuda/planted.cu.o
$(BUILD)/tests/cuda/test_cuda_fragments: $(BUILD)/emu/tests/cuda/fragments.cu.o
$(BUILD)/tests/cuda/test_cuda_trace $(BUILD)/tests/cuda/test_cuda_counters: LDFLAGS += -Wl,--wrap=cupti_load
$(BUILD)/tests/cuda/test_%: $(BUILD)/emu/tests/cuda/test_%.o $(EMU_OBJECTS) $(BUILD)/libkvbench.a
	@mkdir -p $(@D)
	$(call say,link)
	$(Q)$(CXX) $(EXTRA) -pthread $(LDFLAGS) $^ $(LIBS) $(BLAS) -lcmocka -o $@
# kvbench itself on the emulator, for tests/cli.
CUDA_PROGRAMS := $(if $(filter 1,$(CUDA)),$(BUILD)/tests/cuda/kvbench-emulated)
$(BUILD)/tests/cuda/kvbench-emulated: $(BUILD)/bench/main.o $(BUILD)/emu/tests/cuda/emulated.o $(EMU_OBJECTS) $(BUILD)/libkvbench.a
	@mkdir -p $(@D)
	$(call say,link)
	$(Q)$(CXX) $(EXTRA) -pthread $(LDFLAGS) $^ $(LIBS) $(BLAS) -o $@

# The same kernels under ThreadSanitizer, which sees the threads of a block as threads: the emulator itself is left alone.
TSAN_OBJECTS := $(CUDA_KERNELS:%.cu=$(BUILD)/tsan/%.cu.o) $(BUILD)/tsan/tests/cuda/emu_fibers.o
$(BUILD)/tsan/%.cu.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,c++ )
	$(Q)$(CXX) $(CPPFLAGS) -isystem $(CUDA_HOME)/include -DCUDA_EMULATOR='"tests/cuda/emu_device.h"' -x c++ -std=c++17 -fno-strict-aliasing -O1 -g -fsanitize=thread -c $< -o $@
$(BUILD)/tsan/tests/cuda/emu_fibers.o: tests/cuda/emu_fibers.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,cc  )
	$(Q)$(CC) $(CPPFLAGS) $(CUDA_INCLUDE) $(CFLAGS) -DEMU_TSAN -c $< -o $@
$(BUILD)/tests/cuda/tsan_%: $(BUILD)/emu/tests/cuda/test_%.o $(TSAN_OBJECTS) $(filter-out %.cu.o %/emu_fibers.o,$(EMU_OBJECTS)) $(BUILD)/libkvbench.a
	@mkdir -p $(@D)
	$(call say,link)
	$(Q)$(CXX) -fsanitize=thread -pthread $(LDFLAGS) $^ $(LIBS) $(BLAS) -lcmocka -o $@
$(BUILD)/tests/cuda/tsan_cuda_planted: $(BUILD)/tsan/tests/cuda/planted.cu.o
TSAN_TESTS := $(if $(CUDA_PLUGIN),$(addprefix $(BUILD)/tests/cuda/tsan_cuda_,kernels planted))
tsan: $(TSAN_TESTS)
	@for t in $(TSAN_TESTS); do $$t || exit 1; done

deps-cuda:
	@tools/deps.sh cuda
.PHONY: tsan deps-cuda
