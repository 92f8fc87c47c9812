#include "distributed/shm/copying.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace lockstep::distributed::shm {

void copy_to_shared(std::byte* to, const std::byte* from, size_t bytes, bool nontemporal) {
  size_t streamed = 0;
#if defined(__SSE2__)
  if (nontemporal) {
    streamed = bytes / sizeof(__m128i) * sizeof(__m128i);
    for (size_t i = 0; i < streamed; i += sizeof(__m128i))
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
    _mm_sfence();
  }
#else
  static_cast<void>(nontemporal);
#endif
  copy_bytes(to + streamed, from + streamed, bytes - streamed);
}

}  // namespace lockstep::distributed::shm
