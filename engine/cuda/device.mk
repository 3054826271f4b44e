# The plug-in, for every chip in one file (later ones compile the newest's PTX when they load it): kernels by nvcc, the rest
# by CC. NVIDIA's runtime is linked in, cuBLAS is the machine's, and it carries a copy of what it uses of the engine, since it
# shows nothing but its one function.
DEVICE_KERNELS := $(CUDA_KERNELS:%.cu=$(BUILD)/device/%.cu.o)
DEVICE_SHARED := $(wildcard engine/base/*.c) $(addprefix engine/,batch.c check.c cover.c plan.c rope.c slots.c) engine/cuda/cover.c
PLUGIN_OBJECTS := $(patsubst %.c,$(BUILD)/device/%.o,$(CUDA_HOST) $(DEVICE_SHARED)) $(DEVICE_KERNELS)
CUDA_LIBS := -L$(CUDA_HOME)/lib64 -Wl,-rpath,$(realpath $(CUDA_HOME)/lib64) -lcublas -lcublasLt -lcudart_static -ldl -lrt -lpthread -lm
$(BUILD)/device/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,cc  )
	$(Q)$(CC) $(CPPFLAGS) $(CUDA_INCLUDE) $(CFLAGS) -fPIC -fvisibility=hidden -ffunction-sections -c $< -o $@
$(BUILD)/device/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(call say,nvcc)
	$(Q)$(NVCC) -std=c++17 -O3 --compress-mode=size -I. -MMD -MP -MF $(@:.o=.d) $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
	  -gencode arch=compute_$(lastword $(CUDA_ARCHS)),code=compute_$(lastword $(CUDA_ARCHS)) \
	  -Xptxas -v -Xcompiler -fPIC,-fvisibility=hidden,-fno-threadsafe-statics -c $< -o $@ 2>$(@:.o=.ptxas) || { cat $(@:.o=.ptxas); exit 1; }
$(BUILD)/kvbench-cuda.so: $(PLUGIN_OBJECTS)
	$(call say,link)
	$(Q)$(CC) -shared -s $(LDFLAGS) -Wl,--gc-sections,--exclude-libs,ALL,-z,defs $^ $(CUDA_LIBS) -o $@

# What tools/gpu_check.sh takes to a machine without a compiler: the program, the plug-in, the tests that run on a device
# instead of the emulator, and the small libraries they want; a folder, and packed for the way.
KIT := build/gpu-kit
DEVICE_TESTS := $(filter-out %metrics %activity %ceilings %failures %planted %trace %counters,$(patsubst %.c,%,$(wildcard tests/cuda/test_*.c)))
$(BUILD)/device/tests/test_cuda_fragments: $(BUILD)/device/tests/cuda/fragments.cu.o
$(BUILD)/device/tests/test_%: $(BUILD)/emu/tests/cuda/test_%.o $(CUDA_HOST:%.c=$(BUILD)/emu/%.o) $(DEVICE_KERNELS) $(BUILD)/libkvbench.a
	@mkdir -p $(@D)
	$(call say,link)
	$(Q)$(CC) $(LDFLAGS) $^ $(LIBS) $(BLAS) -lcmocka $(CUDA_LIBS) -pthread -o $@
gpu-kit: $(BUILD)/kvbench $(BUILD)/kvbench-cuda.so $(DEVICE_TESTS:tests/cuda/%=$(BUILD)/device/tests/%)
	@rm -rf $(KIT) && mkdir -p $(KIT)/lib && cp $^ $(KIT) && strip $(KIT)/kvbench $(KIT)/test_*
	@ldd $(KIT)/kvbench $(KIT)/test_* | awk '/=> \// && !/lib(c|m|dl|rt|pthread|cu[a-zA-Z]*)\.|ld-linux/ { print $$3 }' | sort -u | xargs cp -t $(KIT)/lib
	@tar -C $(dir $(KIT)) -czf $(KIT).tar.gz $(notdir $(KIT))
	@du -sh $(KIT) $(KIT).tar.gz
gpu-check: $(if $(filter 1,$(CUDA)),gpu-kit)
	@tools/gpu_check.sh $(OUT)
