// Which build this is: git describe, with "-dirty" when files had changed, or "unknown" outside a repository.
#ifndef ENGINE_BASE_VERSION_H
#define ENGINE_BASE_VERSION_H

extern const char kvbench_version[];

#endif
