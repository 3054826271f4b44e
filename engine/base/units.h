// Sizes that multiply without overflow, and numbers as people read them.
#ifndef ENGINE_BASE_UNITS_H
#define ENGINE_BASE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Products and sums of sizes that come from files or users. False on overflow; *out is then UINT64_MAX.
bool size_mul(uint64_t a, uint64_t b, uint64_t *out);
bool size_add(uint64_t a, uint64_t b, uint64_t *out);

// "1.23 GiB", "512 B": binary units for memory. Writes at most 24 characters and returns buffer.
const char *format_bytes(uint64_t bytes, char buffer[24]);

// "12.3 us", "4.56 ms", "7.89 s".
const char *format_ns(double ns, char buffer[24]);

// "0.0123", "4.56", "78.9", "12345": milliseconds for a column that says so, three digits or all before the point.
const char *format_ms(double ns, char buffer[24]);

// Wall clock that never goes back, ns.
int64_t clock_ns(void);

#endif
