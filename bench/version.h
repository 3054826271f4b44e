// The version the Makefile found by git describe.
#ifndef KVBENCH_VERSION
#define KVBENCH_VERSION "unknown"
#endif
