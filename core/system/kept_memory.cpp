#include "core/system/kept_memory.h"

#include <malloc.h>

namespace lockstep {

void keep_freed_memory() {
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, -1);
}

}  // namespace lockstep
