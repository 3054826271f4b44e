#include "engine/base/version.h"
#define KVBENCH_VERSION kvbench_version
