#include "engine/base/version.h"

#ifndef KVBENCH_VERSION
#define KVBENCH_VERSION "unknown"
#endif

const char kvbench_version[] = KVBENCH_VERSION;
