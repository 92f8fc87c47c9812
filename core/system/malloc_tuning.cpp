#include "core/system/malloc_tuning.h"

#include <malloc.h>

namespace lockstep {

void disable_malloc_trim() {
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, -1);
}

void return_allocations_from(size_t bytes) {
  ::mallopt(M_MMAP_MAX, 1 << 16);
  ::mallopt(M_MMAP_THRESHOLD, static_cast<int>(bytes));
}

}  // namespace lockstep
