#include "data/byte_scaling.h"

#include <cstddef>
#include <cstring>
#include <numeric>

namespace lockstep::data {
namespace {

bool has_wide_arithmetic() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

}  // namespace

ByteScaling::ByteScaling(const ByteScale& scale) : normalizes_(scale.mean.has_value()) {
  const auto divisor = [](std::optional<double> value) {
    const auto single = static_cast<float>(value.value_or(1));
    return Divisor{single, 1 / single};
  };
  first_ = divisor(scale.divide_by);
  second_ = divisor(scale.std);
  mean_ = static_cast<float>(scale.mean.value_or(0));
  for (size_t byte = 0; byte < table_.size(); ++byte) {
    const auto value = static_cast<float>(byte) / first_.value;
    table_[byte] = normalizes_ ? (value - mean_) / second_.value : value;
  }
  if (!has_wide_arithmetic()) return;
  std::array<uint8_t, 256> bytes{};
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  std::array<float, 256> computed{};
  compute(bytes, computed.data());
  computes_ = std::memcmp(computed.data(), table_.data(), sizeof(table_)) == 0;
}

// Processes eight numbers at a time, a table lookup only one. The quotient x * (1 / d) is corrected
// by its remainder, which nearly always gives the correctly rounded result (Markstein, IBM Journal
// of Research and Development 34, 1990).
#if defined(__x86_64__)
__attribute__((target("avx2,fma")))
#endif
void ByteScaling::compute(std::span<const uint8_t> bytes, float* __restrict out) const {
  const auto* __restrict in = bytes.data();
  const auto size = bytes.size();
  const float d1 = first_.value, r1 = first_.inverse, d2 = second_.value, r2 = second_.inverse;
  const float mean = mean_;
  if (!normalizes_) {
    for (size_t i = 0; i < size; ++i) {
      const float x = in[i], q = x * r1;
      out[i] = __builtin_fmaf(__builtin_fmaf(-q, d1, x), r1, q);
    }
    return;
  }
  for (size_t i = 0; i < size; ++i) {
    const float x = in[i], q = x * r1;
    const float y = __builtin_fmaf(__builtin_fmaf(-q, d1, x), r1, q) - mean, p = y * r2;
    out[i] = __builtin_fmaf(__builtin_fmaf(-p, d2, y), r2, p);
  }
}

void ByteScaling::apply(std::span<const uint8_t> bytes, float* out) const {
  if (computes_) return compute(bytes, out);
  const auto* in = bytes.data();
  const auto size = bytes.size();
#pragma GCC unroll 8
  for (size_t i = 0; i < size; ++i) out[i] = table_[in[i]];
}

}  // namespace lockstep::data
