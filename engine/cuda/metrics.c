#include "engine/cuda/metrics.h"

#include <string.h>

// Operations of tensor cores are counted as operations: a multiply-add is 2. What is not listed of a chip (f16 and int8
// products) would take a second pass.
#define MEMORY                                                                                                              \
    {"dram__bytes_read.sum", METRIC_DRAM_BYTES}, {"dram__bytes_write.sum", METRIC_DRAM_BYTES},                              \
    {                                                                                                                       \
        "lts__t_bytes.sum", METRIC_L2_BYTES                                                                                 \
    }
#define BF16                                                                                                                \
    {                                                                                                                       \
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum", METRIC_TENSOR_FLOPS                                                    \
    }

static const struct cuda_metric_set SET[] = {
    {"GA100", 4, {MEMORY, BF16}},
    {"GH100", 5, {MEMORY, BF16, {"sm__ops_path_tensor_src_fp8.sum", METRIC_TENSOR_FLOPS}}},
    {"GB100", 4, {MEMORY, BF16}},
};
enum { SETS = sizeof SET / sizeof *SET };

const struct cuda_metric_set *cuda_metric_sets(int32_t *n)
{
    *n = SETS;
    return SET;
}

const struct cuda_metric_set *cuda_metrics_of(const char *chip)
{
    for (int i = 0; i < SETS; i++)
        if (!strcmp(chip, SET[i].chip))
            return &SET[i];
    return NULL;
}
