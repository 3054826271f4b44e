#include "roofline/hardware.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "roofline/catalogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const KIND_NAME[ROOF_KINDS] = {"hard", "datasheet", "attainable"};
static const double GIGA = 1e9, TERA = 1e12, MIB = 1 << 20;

const char *roof_kind_name(enum roof_kind kind)
{
    return KIND_NAME[kind];
}

static bool read_text(const cJSON *json, const char *where, const char *key, char *out, size_t size, struct error *e)
{
    const char *text = NULL;
    if (!json_string(json, where, key, &text, e))
        return false;
    if (text && strlen(text) >= size)
        return error_set(e, ERROR_FILE, "'%s': '%s' is longer than %zu characters", where, key, size - 1);
    if (text)
        memcpy(out, text, strlen(text) + 1);
    return true;
}

static bool read_number(const cJSON *json, const char *where, const char *key, double unit, double *out, struct error *e)
{
    double value = *out / unit;
    if (!json_f64(json, where, key, 0, 1e9, &value, e))
        return false;
    *out = value * unit;
    return true;
}

// A number, or an object that also says where it is from.
static bool read_value(const cJSON *json, const char *where, const char *key, double unit, struct hw_value *out,
                       struct error *e)
{
    static const char *const KEYS[] = {"value", "method", "n", "median", "spread", "date", "source"};
    const cJSON *member = json_member(json, key);
    if (!cJSON_IsObject(member))
        return read_number(json, where, key, unit, &out->value, e);
    if (!json_known_keys(member, where, KEYS, 7, e) || !read_number(member, where, "value", unit, &out->value, e) ||
        !read_text(member, where, "method", out->method, sizeof out->method, e) ||
        !json_i32(member, where, "n", 0, INT32_MAX, &out->n, e) ||
        !read_number(member, where, "median", unit, &out->median, e) ||
        !json_f64(member, where, "spread", 0, 1e3, &out->spread, e) ||
        !read_text(member, where, "date", out->date, sizeof out->date, e) ||
        !read_text(member, where, "source", out->source, sizeof out->source, e))
        return error_prefix(e, "'%s'", key);
    return out->value > 0 || error_set(e, ERROR_FILE, "'%s': '%s' has no positive 'value'", where, key);
}

static bool read_peaks(const cJSON *json, const char *where, struct hw_value *peak, struct error *e)
{
    const char *names[DTYPE_COUNT];
    for (int t = 0; t < DTYPE_COUNT; t++)
        names[t] = dtype_name((enum dtype)t);
    if (!json_known_keys(json, where, names, DTYPE_COUNT, e))
        return error_prefix(e, "'peak_TFLOPS'");
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (!read_value(json, where, names[t], TERA, &peak[t], e))
            return false;
    return true;
}

static bool read_bytes(const cJSON *json, const char *where, const char *key, uint64_t *out, struct error *e)
{
    double bytes = 0;
    if (!read_number(json, where, key, MIB, &bytes, e))
        return false;
    *out = (uint64_t)bytes;
    return true;
}

static bool read_level(const cJSON *json, const char *where, struct hw_level *level, struct error *e)
{
    static const char *const KEYS[] = {"name", "capacity_MiB", "fade_MiB", "read_GBps"};
    if (!json_known_keys(json, where, KEYS, 4, e) || !read_text(json, where, "name", level->name, sizeof level->name, e) ||
        !read_bytes(json, where, "capacity_MiB", &level->bytes, e) ||
        !read_bytes(json, where, "fade_MiB", &level->fade_bytes, e) ||
        !read_value(json, where, "read_GBps", GIGA, &level->bandwidth, e))
        return false;
    if (level->fade_bytes < level->bytes)
        level->fade_bytes = level->bytes;
    return (level->bytes && level->bandwidth.value > 0) ||
           error_set(e, ERROR_FILE, "'%s': a level needs 'capacity_MiB' and 'read_GBps'", where);
}

static bool read_levels(const cJSON *list, const char *where, struct hardware *hw, struct error *e)
{
    const cJSON *item;
    if (list && !cJSON_IsArray(list))
        return error_set(e, ERROR_FILE, "'%s': 'levels' is not a list", where);
    cJSON_ArrayForEach(item, list)
    {
        struct hw_level *level = &hw->level[hw->n_levels];
        if (hw->n_levels == HARDWARE_LEVELS)
            return error_set(e, ERROR_FILE, "'%s': more than %d 'levels'", where, HARDWARE_LEVELS);
        if (!read_level(item, where, level, e))
            return error_prefix(e, "'levels'");
        if (hw->n_levels++ && (level->bytes <= level[-1].bytes || level->bandwidth.value > level[-1].bandwidth.value))
            return error_set(e, ERROR_FILE, "'%s': expected 'levels' in order of size, each slower than the one before",
                             where);
    }
    return true;
}

static bool read_kind(const cJSON *json, const char *where, enum roof_kind kind, struct hardware *hw, struct error *e)
{
    static const char *const KEYS[] = {"bandwidth_GBps", "peak_TFLOPS", "levels"};
    const cJSON *member = json_member(json, KIND_NAME[kind]), *peaks;
    if (!member)
        return true;
    if (!json_known_keys(member, where, KEYS, kind == ROOF_ATTAINABLE ? 3 : 2, e) ||
        !read_value(member, where, "bandwidth_GBps", GIGA, &hw->bandwidth[kind], e) ||
        !read_levels(json_member(member, "levels"), where, hw, e))
        return error_prefix(e, "'%s'", KIND_NAME[kind]);
    peaks = json_member(member, "peak_TFLOPS");
    return !peaks || read_peaks(peaks, where, hw->peak[kind], e) || error_prefix(e, "'%s'", KIND_NAME[kind]);
}

static bool knows_something(const struct hardware *hw)
{
    bool bandwidth = false, peak = false;
    for (int k = 0; k < ROOF_KINDS; k++) {
        bandwidth |= hw->bandwidth[k].value > 0;
        for (int t = 0; t < DTYPE_COUNT; t++)
            peak |= hw->peak[k][t].value > 0;
    }
    return bandwidth && peak;
}

bool hardware_parse(struct hardware *hw, const cJSON *json, const char *where, struct error *e)
{
    static const char *const KEYS[] = {
        "name",       "title",
        "aliases",    "vendor",
        "kind",       "arch",
        "memory_MiB", "cache_MiB",
        "link",       "link_GBps_bidir",
        "source",     "pcie_GBps_per_dir",
        "hard",       "datasheet",
        "attainable", "note",
        "cuda_MiB",   "survey",
    };
    *hw = (struct hardware){0};
    if (!json_known_keys(json, where, KEYS, sizeof KEYS / sizeof *KEYS, e) ||
        !read_text(json, where, "name", hw->name, sizeof hw->name, e) ||
        !read_text(json, where, "title", hw->title, sizeof hw->title, e) ||
        !read_text(json, where, "vendor", hw->vendor, sizeof hw->vendor, e) ||
        !read_text(json, where, "kind", hw->kind, sizeof hw->kind, e) ||
        !read_text(json, where, "arch", hw->arch, sizeof hw->arch, e) ||
        !read_text(json, where, "link", hw->link, sizeof hw->link, e) ||
        !read_text(json, where, "source", hw->source, sizeof hw->source, e) ||
        !read_text(json, where, "note", hw->note, sizeof hw->note, e) ||
        !read_bytes(json, where, "memory_MiB", &hw->memory_bytes, e) ||
        !read_bytes(json, where, "cuda_MiB", &hw->cuda_bytes, e) ||
        !read_bytes(json, where, "cache_MiB", &hw->cache_bytes, e) ||
        !read_number(json, where, "link_GBps_bidir", GIGA, &hw->link_bytes_per_s_bidir, e) ||
        !read_number(json, where, "pcie_GBps_per_dir", GIGA, &hw->pcie_bytes_per_s, e))
        return false;
    for (int k = 0; k < ROOF_KINDS; k++)
        if (!read_kind(json, where, (enum roof_kind)k, hw, e))
            return false;
    if (!*hw->name)
        return error_set(e, ERROR_FILE, "'%s': no 'name', expected a hardware description", where);
    if (!knows_something(hw))
        return error_set(e, ERROR_FILE, "'%s': expected a bandwidth and a peak in 'hard', 'datasheet' or 'attainable'",
                         where);
    return true;
}

// The file that a name stands for.
static bool find_file(const char *name, char path[1024], struct error *e)
{
    size_t n = strlen(name);
    bool is_auto = !strcmp(name, "auto");
    if (is_auto && !file_exists(HARDWARE_MEASURED_PATH))
        return error_set(e, ERROR_FILE,
                         "'auto': no %s here, expected it from `kvbench ceilings`; or name a device "
                         "(see kvbench list hardware)",
                         HARDWARE_MEASURED_PATH);
    if (!is_auto && !strchr(name, '/') && !(n > 5 && !strcmp(name + n - 5, ".json")))
        return catalogue_find("hardware", name, path, 1024, e);
    snprintf(path, 1024, "%s", is_auto ? HARDWARE_MEASURED_PATH : name);
    return true;
}

bool hardware_load(struct hardware *hw, const char *name, struct error *e)
{
    char path[1024];
    cJSON *json;
    if (!find_file(name, path, e) || !json_load(path, &json, e))
        return false;
    bool ok = hardware_parse(hw, json, path, e);
    cJSON_Delete(json);
    return ok;
}

static void write_text(cJSON *json, const char *key, const char *text)
{
    if (*text)
        cJSON_AddStringToObject(json, key, text);
}

static void write_number(cJSON *json, const char *key, double value)
{
    if (value > 0)
        cJSON_AddNumberToObject(json, key, value);
}

static void write_value(cJSON *json, const char *key, double unit, const struct hw_value *v)
{
    if (!(v->value > 0))
        return;
    cJSON *o = cJSON_AddObjectToObject(json, key);
    write_number(o, "value", v->value / unit);
    write_text(o, "method", v->method);
    write_number(o, "n", v->n);
    write_number(o, "median", v->median / unit);
    write_number(o, "spread", v->spread);
    write_text(o, "date", v->date);
    write_text(o, "source", v->source);
}

static void write_levels(cJSON *json, const struct hardware *hw)
{
    cJSON *list = hw->n_levels ? cJSON_AddArrayToObject(json, "levels") : NULL;
    for (int32_t i = 0; i < hw->n_levels; i++) {
        cJSON *o = cJSON_CreateObject();
        write_text(o, "name", hw->level[i].name);
        write_number(o, "capacity_MiB", (double)hw->level[i].bytes / MIB);
        write_number(o, "fade_MiB", (double)hw->level[i].fade_bytes / MIB);
        write_value(o, "read_GBps", GIGA, &hw->level[i].bandwidth);
        cJSON_AddItemToArray(list, o);
    }
}

static void write_kind(cJSON *json, enum roof_kind kind, const struct hardware *hw)
{
    cJSON *o = cJSON_CreateObject(), *peaks = cJSON_CreateObject();
    write_value(o, "bandwidth_GBps", GIGA, &hw->bandwidth[kind]);
    if (kind == ROOF_ATTAINABLE)
        write_levels(o, hw);
    for (int t = 0; t < DTYPE_COUNT; t++)
        write_value(peaks, dtype_name((enum dtype)t), TERA, &hw->peak[kind][t]);
    if (cJSON_GetArraySize(peaks))
        cJSON_AddItemToObject(o, "peak_TFLOPS", peaks);
    else
        cJSON_Delete(peaks);
    if (cJSON_GetArraySize(o))
        cJSON_AddItemToObject(json, KIND_NAME[kind], o);
    else
        cJSON_Delete(o);
}

cJSON *hardware_json(const struct hardware *hw)
{
    cJSON *json = cJSON_CreateObject();
    write_text(json, "name", hw->name);
    write_text(json, "title", hw->title);
    write_text(json, "vendor", hw->vendor);
    write_text(json, "kind", hw->kind);
    write_text(json, "arch", hw->arch);
    write_number(json, "memory_MiB", (double)hw->memory_bytes / MIB);
    write_number(json, "cuda_MiB", (double)hw->cuda_bytes / MIB);
    write_number(json, "cache_MiB", (double)hw->cache_bytes / MIB);
    write_text(json, "link", hw->link);
    write_number(json, "link_GBps_bidir", hw->link_bytes_per_s_bidir / GIGA);
    write_number(json, "pcie_GBps_per_dir", hw->pcie_bytes_per_s / GIGA);
    for (int k = 0; k < ROOF_KINDS; k++)
        write_kind(json, (enum roof_kind)k, hw);
    write_text(json, "source", hw->source);
    write_text(json, "note", hw->note);
    return json;
}

static bool write_file(const cJSON *json, const char *path, struct error *e)
{
    char *text = cJSON_Print(json);
    if (!text)
        return error_set(e, ERROR_MEMORY, "no memory to write '%s'", path);
    FILE *f = fopen(path, "w");
    bool ok = f && fprintf(f, "%s\n", text) > 0;
    if (f && fclose(f))
        ok = false;
    free(text);
    return ok || error_set(e, ERROR_OUTPUT, "'%s' could not be written", path);
}

bool hardware_save_survey(const struct hardware *hw, const cJSON *survey, const char *path, struct error *e)
{
    cJSON *json = hardware_json(hw), *before = NULL;
    if (!survey && file_exists(path) && json_load(path, &before, NULL))
        survey = json_member(before, "survey");
    if (survey)
        cJSON_AddItemToObject(json, "survey", cJSON_Duplicate(survey, true));
    bool ok = write_file(json, path, e);
    cJSON_Delete(before);
    cJSON_Delete(json);
    return ok;
}

bool hardware_save(const struct hardware *hw, const char *path, struct error *e)
{
    return hardware_save_survey(hw, NULL, path, e);
}

static bool has_peak(const struct hardware *hw, enum dtype type)
{
    for (int k = 0; k < ROOF_KINDS; k++)
        if (hw->peak[k][type].value > 0)
            return true;
    return false;
}

enum dtype hardware_compute_type(const struct hardware *hw, enum dtype compute)
{
    if (has_peak(hw, compute))
        return compute;
    if (compute == DTYPE_F32 || compute == DTYPE_F16 || compute == DTYPE_BF16)
        return DTYPE_F32;
    if (has_peak(hw, DTYPE_BF16))
        return DTYPE_BF16;
    return has_peak(hw, DTYPE_F16) ? DTYPE_F16 : DTYPE_F32;
}

double hardware_peak(const struct hardware *hw, enum roof_kind kind, enum dtype compute)
{
    return hw->peak[kind][hardware_compute_type(hw, compute)].value;
}

double hardware_bandwidth(const struct hardware *hw, enum roof_kind kind)
{
    return hw->bandwidth[kind].value;
}

uint64_t hardware_cache(const struct hardware *hw)
{
    uint64_t largest = hw->n_levels ? hw->level[hw->n_levels - 1].bytes : 0;
    return largest > hw->cache_bytes ? largest : hw->cache_bytes;
}

static uint64_t level_keeps(const struct hw_level *level, uint64_t distance)
{
    if (distance <= level->bytes)
        return distance;
    if (distance >= level->fade_bytes)
        return 0;
    double left = (double)(level->fade_bytes - distance) / (double)(level->fade_bytes - level->bytes);
    return (uint64_t)((double)level->bytes * left);
}

// Levels up to the i-th together: an inner one's bytes may be in the outer one too.
static uint64_t levels_keep(const struct hardware *hw, int32_t n, uint64_t distance)
{
    uint64_t most = 0;
    for (int32_t i = 0; i < n; i++) {
        uint64_t kept = level_keeps(&hw->level[i], distance);
        most = kept > most ? kept : most;
    }
    return most;
}

uint64_t hardware_kept(const struct hardware *hw, uint64_t distance)
{
    return levels_keep(hw, hw->n_levels, distance);
}

uint64_t hardware_served(const struct hardware *hw, int32_t i, uint64_t distance)
{
    uint64_t upto = i < hw->n_levels ? levels_keep(hw, i + 1, distance) : distance;
    return upto - levels_keep(hw, i, distance);
}

bool hardware_from_memory(const struct hardware *hw, uint64_t distance)
{
    return !hardware_kept(hw, distance);
}

static const struct hw_value *best_bandwidth(const struct hardware *hw)
{
    for (int kind = ROOF_ATTAINABLE; kind > ROOF_HARD; kind--)
        if (hw->bandwidth[kind].value > 0)
            return &hw->bandwidth[kind];
    return &hw->bandwidth[ROOF_HARD];
}

struct hw_value hardware_stream(const struct hardware *hw, uint64_t distance)
{
    struct hw_value memory = *best_bandwidth(hw);
    if (!(memory.value > 0) || !distance || hardware_from_memory(hw, distance))
        return memory;
    double s = 0, spread = 0;
    for (int32_t i = 0; i <= hw->n_levels; i++) {
        const struct hw_value *v = i < hw->n_levels ? &hw->level[i].bandwidth : &memory;
        double bytes = (double)hardware_served(hw, i, distance);
        s += bytes / v->value;
        spread += bytes / v->value * v->spread;
    }
    memory.value = (double)distance / s;
    memory.spread = spread / s;
    return memory;
}

void hardware_set_stream(struct hardware *hw, uint64_t distance, double rate)
{
    double was = hardware_stream(hw, distance).value;
    if (!(was > 0))
        return;
    hw->bandwidth[ROOF_ATTAINABLE].value = best_bandwidth(hw)->value * rate / was;
    for (int32_t i = 0; i < hw->n_levels; i++)
        hw->level[i].bandwidth.value *= rate / was;
}

double hardware_link(const struct hardware *hw)
{
    return hw->link_bytes_per_s_bidir > 0 ? hw->link_bytes_per_s_bidir / 2 : hw->pcie_bytes_per_s;
}

double hardware_ridge(const struct hardware *hw, enum roof_kind kind, enum dtype compute)
{
    double bandwidth = hardware_bandwidth(hw, kind);
    return bandwidth > 0 ? hardware_peak(hw, kind, compute) / bandwidth : 0;
}
