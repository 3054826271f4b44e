// Chat formats are chosen by the model's own template; prompts are compared with what the templates would give, and with the
// reference's prompt ids of the real model.
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/load/tokenizer_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SEED "tests/fuzz/seeds/tokenizer/plain.json"
#define REAL_GGUF "models/SmolLM2-135M-Instruct.Q4_1.gguf"
#define REAL_CASES "../shared/golden/smollm2.json"

static struct tokenizer *open_path(const char *path)
{
    struct tokenizer *t;
    struct error e = {0};
    if (!tokenizer_open(&t, path, &e))
        fail_msg("%s", e.message);
    return t;
}

static void assert_prompt(const struct tokenizer *t, const struct chat_message *message, int32_t n, const char *expected)
{
    char *text;
    struct error e = {0};
    if (!chat_render(t, message, n, &text, &e))
        fail_msg("%s", e.message);
    assert_string_equal(text, expected);
    free(text);
}

// Templates in their makers' words, as far as they matter.
#define SMOLLM                                                                                                              \
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are "  \
    "a "                                                                                                                    \
    "helpful AI.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' "  \
    "+ "                                                                                                                    \
    "'\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
#define QWEN_2                                                                                                              \
    "{%- if tools %}{{- '<|im_start|>system\\n' }}{%- else %}{%- if messages[0]['role'] == 'system' %}{{- "                 \
    "'<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}{%- else %}{{- '<|im_start|>system\\nYou are "    \
    "Qwen.<|im_end|>\\n' }}{%- endif %}{%- endif %}"
#define QWEN_3 "{%- if messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}"
#define LLAMA_3                                                                                                             \
    "{% for m in messages %}{% set content = '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n'+ m['content'] | "  \
    "trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}"

static void formats_and_default_systems(void **state)
{
    static const struct {
        const char *template, *format, *prompt; // NULL: refused
    } ROW[] = {
        {SMOLLM, "chatml",
         "<|im_start|>system\nYou are a helpful AI.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n"},
        {QWEN_2, "chatml",
         "<|im_start|>system\nYou are Qwen.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n"},
        {QWEN_3, "chatml", "<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n"},
        {LLAMA_3, "llama3",
         "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant"
         "<|end_header_id|>\n\n"},
        {"[INST] {{ message }} [/INST]", NULL, NULL},
        {"", NULL, NULL},
    };
    struct tokenizer *t = open_path(SEED);
    struct chat_message user = {"user", " Hi "};
    for (size_t i = 0; i < sizeof ROW / sizeof *ROW; i++) {
        char *text;
        struct error e = {0};
        assert_true(chat_choose(t, (struct text){ROW[i].template, strlen(ROW[i].template)}, &e));
        if (ROW[i].format) {
            assert_string_equal(tokenizer_chat_format(t), ROW[i].format);
            assert_prompt(t, &user, 1, ROW[i].prompt);
            continue;
        }
        assert_null(tokenizer_chat_format(t));
        assert_false(chat_render(t, &user, 1, &text, &e));
        assert_int_equal(e.kind, ERROR_UNSUPPORTED);
        assert_non_null(strstr(e.message, "template"));
    }
    tokenizer_close(t);
    (void)state;
}

// What the formats' published templates give for a conversation, worked out by hand. The seed's tokenizer has no BOS and no
// EOS, so the formats' own stand there.
#define DS_USER "<\uff5cUser\uff5c>"
#define DS_ASSISTANT "<\uff5cAssistant\uff5c>"
#define DS_BOS "<\uff5cbegin\u2581of\u2581sentence\uff5c>"
#define DS_EOS "<\uff5cend\u2581of\u2581sentence\uff5c>"
#define H3(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define DATES "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"

static const struct {
    const char *format, *template;
    const char *with_system, *without; // system S, user " U ", assistant " A ", user "V"; NULL: refused
} CONVERSATION[] = {
    {"chatml", SMOLLM,
     "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n U <|im_end|>\n<|im_start|>assistant\n A <|im_end|>\n"
     "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n",
     "<|im_start|>system\nYou are a helpful AI.<|im_end|>\n<|im_start|>user\n U <|im_end|>\n<|im_start|>assistant\n A "
     "<|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"},
    {"llama2",
     "{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] %}{% endif %}{% if loop.index0 "
     "== "
     "0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + "
     "message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' "
     "[/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}",
     "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\n U [/INST] A </s><s>[INST] V [/INST]",
     "<s>[INST] U [/INST] A </s><s>[INST] V [/INST]"},
    {"llama3", LLAMA_3,
     "<|begin_of_text|>" H3("system") "S<|eot_id|>" H3("user") "U<|eot_id|>" H3("assistant") "A<|eot_id|>" H3(
         "user") "V<|eot_id|>" H3("assistant"),
     "<|begin_of_text|>" H3("user") "U<|eot_id|>" H3("assistant") "A<|eot_id|>" H3("user") "V<|eot_id|>" H3("assistant")},
    {"llama3.1",
     "{{- bos_token }}{%- if not date_string is defined %}{%- set date_string = \"26 Jul 2024\" %}{%- endif %}{{- "
     "\"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}{{- \"Cutting Knowledge Date: December 2023\\n\" }}{{- \"Today "
     "Date: \" + date_string + \"\\n\\n\" }}{{- system_message }}{{- \"<|eot_id|>\" }}",
     "<|begin_of_text|>" H3("system") DATES
     "S<|eot_id|>" H3("user") "U<|eot_id|>" H3("assistant") "A<|eot_id|>" H3("user") "V<|eot_id|>" H3("assistant"),
     "<|begin_of_text|>" H3("system") DATES
     "<|eot_id|>" H3("user") "U<|eot_id|>" H3("assistant") "A<|eot_id|>" H3("user") "V<|eot_id|>" H3("assistant")},
    {"gemma",
     "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif "
     "%}{{ "
     "'<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}",
     NULL,
     "<bos><start_of_turn>user\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<start_of_turn>user\nV<end_of_turn>\n"
     "<start_of_turn>model\n"},
    {"gemma3",
     "{{ bos_token }}{%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}{{ '<start_of_turn>' + role + '\n' + "
     "(first_user_prefix if loop.first else \"\") }}{{ message['content'] | trim }}{{ '<end_of_turn>\n' }}",
     "<bos><start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<start_of_turn>user\nV"
     "<end_of_turn>\n<start_of_turn>model\n",
     "<bos><start_of_turn>user\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<start_of_turn>user\nV<end_of_turn>\n"
     "<start_of_turn>model\n"},
    {"mistral-v1",
     "{{ bos_token }}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif "
     "message['role'] == 'assistant' %}{{ message['content'] + eos_token + ' ' }}{% endif %}",
     NULL, "<s>[INST]  U  [/INST] A </s> [INST] V [/INST]"},
    {"mistral-v2",
     "{{ bos_token }}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif "
     "message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% endif %}",
     NULL, "<s>[INST]  U  [/INST] A </s>[INST] V [/INST]"},
    {"mistral-v2-system",
     "{{- bos_token }}{%- if loop.first and system_message is defined %}{{- \" [INST] \" + system_message + \"\\n\\n\" + "
     "message[\"content\"] + \" [/INST]\" }}{%- else %}{{- \" [INST] \" + message[\"content\"] + \" [/INST]\" }}{{- \" \" + "
     "message[\"content\"] + eos_token}}",
     "<s> [INST] S\n\n U  [/INST]  A </s> [INST] V [/INST]", "<s> [INST]  U  [/INST]  A </s> [INST] V [/INST]"},
    {"mistral-v3",
     "{{- bos_token }}{%- if loop.last and system_message is defined %}{{- \"[INST] \" + system_message + \"\\n\\n\" + "
     "message[\"content\"] + \"[/INST]\" }}{%- else %}{{- \"[INST] \" + message[\"content\"] + \"[/INST]\" }}{{- \" \" + "
     "message[\"content\"]|trim + eos_token}}",
     "<s>[INST]  U [/INST] A</s>[INST] S\n\nV[/INST]", "<s>[INST]  U [/INST] A</s>[INST] V[/INST]"},
    {"mistral-v3-tekken",
     "{{- bos_token }}{%- if loop.last and system_message is defined %}{{- \"[INST]\" + system_message + \"\\n\\n\" + "
     "message[\"content\"] + \"[/INST]\" }}{%- else %}{{- \"[INST]\" + message[\"content\"] + \"[/INST]\" }}{{- "
     "message[\"content\"] + eos_token}}",
     "<s>[INST] U [/INST] A </s>[INST]S\n\nV[/INST]", "<s>[INST] U [/INST] A </s>[INST]V[/INST]"},
    {"mistral-v7",
     "{%- set default_system_message = \"You are ...\" + today %}{{- bos_token }}{{- '[SYSTEM_PROMPT]' + system_message + "
     "'[/SYSTEM_PROMPT]' }}{{- '[INST]' + message['content'] + '[/INST]' }}{{- message['content'] + eos_token }}",
     "<s>[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][INST] U [/INST] A </s>[INST]V[/INST]", NULL},
    {"phi3",
     "{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == "
     "'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{{ '<|assistant|>\n' }}",
     "<|system|>\nS<|end|>\n<|user|>\n U <|end|>\n<|assistant|>\n A <|end|>\n<|user|>\nV<|end|>\n<|assistant|>\n",
     "<|user|>\n U <|end|>\n<|assistant|>\n A <|end|>\n<|user|>\nV<|end|>\n<|assistant|>\n"},
    {"phi4-mini", "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{{ '<|assistant|>' }}",
     "<|system|>S<|end|><|user|> U <|end|><|assistant|> A <|end|><|user|>V<|end|><|assistant|>",
     "<|user|> U <|end|><|assistant|> A <|end|><|user|>V<|end|><|assistant|>"},
    {"phi4", "{{'<|im_start|>user<|im_sep|>' + message['content'] + '<|im_end|>'}}{{ '<|im_start|>assistant<|im_sep|>' }}",
     "<|im_start|>system<|im_sep|>S<|im_end|><|im_start|>user<|im_sep|> U <|im_end|><|im_start|>assistant<|im_sep|> A "
     "<|im_end|><|im_start|>user<|im_sep|>V<|im_end|><|im_start|>assistant<|im_sep|>",
     "<|im_start|>user<|im_sep|> U <|im_end|><|im_start|>assistant<|im_sep|> A <|im_end|><|im_start|>user<|im_sep|>V"
     "<|im_end|><|im_start|>assistant<|im_sep|>"},
    {"deepseek-v3",
     "{{bos_token}}{{ns.system_prompt}}{{'" DS_USER "' + message['content']}}{{'" DS_ASSISTANT
     "' + message['content'] + '" DS_EOS "'}}{{'" DS_ASSISTANT "'}}",
     DS_BOS "S" DS_USER " U " DS_ASSISTANT " A " DS_EOS DS_USER "V" DS_ASSISTANT,
     DS_BOS DS_USER " U " DS_ASSISTANT " A " DS_EOS DS_USER "V" DS_ASSISTANT},
    {"deepseek-r1",
     "{{bos_token}}{{ns.system_prompt}}{{'" DS_USER "' + message['content']}}{{'" DS_ASSISTANT "<think>\\n'}}",
     DS_BOS "S" DS_USER " U " DS_ASSISTANT " A " DS_EOS DS_USER "V" DS_ASSISTANT "<think>\n",
     DS_BOS DS_USER " U " DS_ASSISTANT " A " DS_EOS DS_USER "V" DS_ASSISTANT "<think>\n"},
    {"deepseek-v2",
     "{{ bos_token }}{{ 'User: ' + message['content'] + '\n\n' }}{{ 'Assistant: ' + message['content'] + eos_token }}{{ "
     "message['content'] + '\n\n' }}{{ 'Assistant:' }}",
     DS_BOS "S\n\nUser:  U \n\nAssistant:  A " DS_EOS "User: V\n\nAssistant:",
     DS_BOS "User:  U \n\nAssistant:  A " DS_EOS "User: V\n\nAssistant:"},
    {"olmo2",
     "{{ bos_token }}{{ '<|system|>\n' + message['content'] + '\n' }}{{ '<|user|>\n' + message['content'] + '\n' }}{{ "
     "'<|assistant|>\n' + message['content'] + eos_token + '\n' }}",
     "<|endoftext|><|system|>\nS\n<|user|>\n U \n<|assistant|>\n A <|endoftext|>\n<|user|>\nV\n<|assistant|>\n",
     "<|endoftext|><|user|>\n U \n<|assistant|>\n A <|endoftext|>\n<|user|>\nV\n<|assistant|>\n"},
    {"zephyr",
     "{{ '<|user|>\n' + message['content'] + eos_token }}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n{{ "
     "'<|assistant|>\n'  + message['content'] + eos_token }}\n{{ '<|assistant|>' }}",
     "<|system|>\nS</s>\n<|user|>\n U </s>\n<|assistant|>\n A </s>\n<|user|>\nV</s>\n<|assistant|>\n",
     "<|user|>\n U </s>\n<|assistant|>\n A </s>\n<|user|>\nV</s>\n<|assistant|>\n"},
};

static void assert_prompt_or_refusal(const struct tokenizer *t, const struct chat_message *message, int32_t n,
                                     const char *expected)
{
    char *text;
    struct error e = {0};
    if (expected) {
        assert_prompt(t, message, n, expected);
        return;
    }
    assert_false(chat_render(t, message, n, &text, &e));
    assert_null(text);
    assert_non_null(strstr(e.message, "system text"));
}

static void conversations_in_all_formats(void **state)
{
    struct tokenizer *t = open_path(SEED);
    struct chat_message message[] = {{"system", "S"}, {"user", " U "}, {"assistant", " A "}, {"user", "V"}};
    const char *name, *models;
    int32_t n = 0;
    for (; chat_describe(n, &name, &models); n++) {
        size_t i = 0, n_rows = sizeof CONVERSATION / sizeof *CONVERSATION;
        while (i < n_rows && strcmp(CONVERSATION[i].format, name))
            i++;
        assert_true(*models);
        if (i == n_rows)
            fail_msg("no conversation for '%s'", name);
        const char *template = CONVERSATION[i].template;
        assert_true(chat_choose(t, (struct text){template, strlen(template)}, NULL));
        assert_string_equal(tokenizer_chat_format(t), CONVERSATION[i].format);
        assert_prompt_or_refusal(t, message, 4, CONVERSATION[i].with_system);
        assert_prompt_or_refusal(t, message + 1, 3, CONVERSATION[i].without);
    }
    assert_int_equal(n, sizeof CONVERSATION / sizeof *CONVERSATION);
    tokenizer_close(t);
    (void)state;
}

static void thoughts_of_earlier_answers_are_dropped(void **state)
{
    struct tokenizer *t = open_path(SEED);
    const char template[] = "{{'" DS_USER "'}}{{'" DS_ASSISTANT "<think>\\n'}}";
    struct chat_message message[] = {{"user", "U"}, {"assistant", "<think>\nhm\n</think>\n\nA"}, {"user", "V"}};
    assert_true(chat_choose(t, (struct text){template, sizeof template - 1}, NULL));
    assert_prompt(t, message, 3, DS_USER "U" DS_ASSISTANT "\n\nA" DS_EOS DS_USER "V" DS_ASSISTANT "<think>\n");
    tokenizer_close(t);
    (void)state;
}

// ---- what Hugging Face keeps beside tokenizer.json

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void remove_files(const char *folder)
{
    static const char *const NAME[] = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"};
    char path[256];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, NAME[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void folder_with_config_and_template(void **state)
{
    char folder[] = "/tmp/test_chat_XXXXXX";
    struct file seed;
    struct tokenizer *t;
    struct error e = {0};
    int32_t stop[4];
    assert_non_null(mkdtemp(folder));
    assert_true(file_open(&seed, SEED, &e));
    char *json = strndup(seed.data, seed.size);
    write_file(folder, "tokenizer.json", json);
    write_file(folder, "tokenizer_config.json",
               "{\"bos_token\": \"low\", \"eos_token\": {\"content\": \"<|s|>\"}, \"chat_template\": [{\"name\": \"tool\", "
               "\"template\": \"x\"}, {\"name\": \"default\", \"template\": \"<|im_start|>\"}]}");
    t = open_path(folder);
    assert_string_equal(tokenizer_chat_format(t), "chatml");
    assert_int_equal(tokenizer_bos(t), 20);
    assert_int_equal(chat_stop_ids(t, stop, 4), 1); // this vocabulary has none of the format's own
    assert_int_equal(stop[0], 23);
    tokenizer_close(t);

    write_file(folder, "chat_template.jinja", LLAMA_3);
    t = open_path(folder);
    assert_string_equal(tokenizer_chat_format(t), "llama3");
    tokenizer_close(t);

    write_file(folder, "tokenizer_config.json", "{\"bos_token\": ");
    assert_false(tokenizer_open(&t, folder, &e));
    assert_non_null(strstr(e.message, "tokenizer_config.json"));
    assert_null(t);
    free(json);
    file_close(&seed);
    remove_files(folder);
    (void)state;
}

// ---- streaming

static void a_stream_never_gives_half_a_character(void **state)
{
    struct tokenizer *t = open_path(SEED);
    struct token_stream s = {.tokenizer = t};
    char out[64];
    int32_t lead = tokenizer_token_id(t, "\u00c3"), rest = tokenizer_token_id(t, "\u00a9"); // the two bytes of e acute
    assert_int_equal(token_stream_next(&s, lead, out, sizeof out - 1), 0);
    assert_int_equal(token_stream_next(&s, rest, out, sizeof out - 1), 2);
    assert_string_equal(out, "\xc3\xa9");
    assert_int_equal(token_stream_next(&s, lead, out, sizeof out - 1), 0);
    assert_int_equal(token_stream_next(&s, 23, out, sizeof out - 1), 0); // special: gives nothing, changes nothing
    assert_int_equal(token_stream_next(&s, 999, out, sizeof out - 1), 0);
    assert_int_equal(token_stream_next(&s, 20, out, sizeof out - 1), 6); // the lead byte can become nothing now
    assert_string_equal(out, "\xef\xbf\xbdlow");
    assert_int_equal(token_stream_next(&s, lead, out, sizeof out - 1), 0);
    assert_int_equal(token_stream_next(&s, -1, out, sizeof out - 1), 3);
    assert_string_equal(out, "\xef\xbf\xbd");
    assert_int_equal(token_stream_next(&s, -1, out, sizeof out - 1), 0);
    assert_int_equal(token_stream_next(&s, 20, out, 2), 2); // as much as there is room for
    tokenizer_close(t);
    (void)state;
}

// ---- the real model

static void assert_prompt_ids(const struct tokenizer *t, const cJSON *c)
{
    struct token_list ids = {0};
    const char *prompt = json_member(c, "prompt")->valuestring, *at = strstr(prompt, "user\n");
    char *text = strdup(prompt);
    if (at) { // rebuild the prompt from the user's words
        char *question = strndup(at + 5, strcspn(at + 5, "<"));
        free(text);
        assert_true(chat_render(t, &(struct chat_message){"user", question}, 1, &text, NULL));
        assert_string_equal(text, prompt);
        free(question);
    }
    assert_true(tokenizer_encode(t, text, strlen(text), false, &ids, NULL));
    const cJSON *expected = json_member(c, "prompt_ids");
    assert_int_equal(ids.n, cJSON_GetArraySize(expected));
    for (int32_t i = 0; i < ids.n; i++)
        assert_int_equal(ids.id[i], cJSON_GetArrayItem(expected, i)->valueint);
    token_list_free(&ids);
    free(text);
}

static void the_real_model_gets_its_reference_prompts(void **state)
{
    cJSON *cases;
    const cJSON *c;
    int32_t stop[4];
    if (!file_exists(REAL_GGUF) || !file_exists(REAL_CASES)) {
        print_message(REAL_GGUF " (make model) or its reference is not there\n");
        skip();
    }
    struct tokenizer *t = open_path(REAL_GGUF);
    assert_true(json_load(REAL_CASES, &cases, NULL));
    cJSON_ArrayForEach(c, json_member(cases, "cases"))
    {
        assert_prompt_ids(t, c);
    }
    assert_int_equal(chat_stop_ids(t, stop, 4), 2);
    assert_int_equal(stop[0], tokenizer_token_id(t, "<|im_end|>"));
    cJSON_Delete(cases);
    tokenizer_close(t);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_and_default_systems),
        cmocka_unit_test(conversations_in_all_formats),
        cmocka_unit_test(thoughts_of_earlier_answers_are_dropped),
        cmocka_unit_test(folder_with_config_and_template),
        cmocka_unit_test(a_stream_never_gives_half_a_character),
        cmocka_unit_test(the_real_model_gets_its_reference_prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
