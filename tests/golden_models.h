// The tiny models of tests/golden: whose logits somebody else computed.
#ifndef TESTS_GOLDEN_MODELS_H
#define TESTS_GOLDEN_MODELS_H

static const char *const GOLDEN_MODEL[] = {
    "tests/golden/llama-gqa",
    "tests/golden/llama-mha",
    "tests/golden/llama-mqa",
    "tests/golden/llama-bf16",
    "tests/golden/llama3-rope",
    "tests/golden/qwen2",
    "tests/golden/qwen2-f16",
    "tests/golden/qwen3",
    "tests/golden/mistral-swa",
    "tests/golden/gemma2",
    "tests/golden/gemma3",
    "tests/golden/phi3",
    "tests/golden/olmo2",
    "tests/golden/granite",
    "tests/golden/gguf/llama-gqa-f32.gguf",
    "tests/golden/gguf/llama-gqa-q8_0.gguf",
    "tests/golden/gguf/llama-mha-q4_1.gguf",
    "tests/golden/gguf/llama-mqa-q4_0.gguf",
    "tests/golden/gguf/llama3-rope-f16.gguf",
    "tests/golden/gguf/qwen2-f16.gguf",
    "tests/golden/gguf/qwen3-bf16.gguf",
    "tests/golden/gguf/qwen2-q5_1.gguf",
    "tests/golden/gguf/qwen3-q5_0.gguf",
    "tests/golden/gguf/gemma2-f32.gguf",
    "tests/golden/gguf/gemma3-q8_0.gguf",
    "tests/golden/gguf/phi3-f32.gguf",
};
enum { GOLDEN_MODELS = sizeof GOLDEN_MODEL / sizeof *GOLDEN_MODEL };

#endif
