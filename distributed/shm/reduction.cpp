#include "distributed/shm/reduction.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep::distributed::shm {
namespace {

constexpr size_t kBlock = 1024;        // elements: the accumulator of a block stays in the L1 cache
constexpr size_t kMaxTreeLevels = 12;  // of sums of up to 2^11 arrays

template <class T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::conditional_t<sizeof(T) < 8, uint32_t, uint64_t>;
    return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  } else {
    return a + b;
  }
}

template <class T>
T multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::conditional_t<sizeof(T) < 8, uint32_t, uint64_t>;
    return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
  } else {
    return a * b;
  }
}

template <class T>
T least(T a, T b) {
  return b < a || b != b ? b : a;  // NaN wins. NOLINT(misc-redundant-expression)
}

template <class T>
T greatest(T a, T b) {
  return b > a || b != b ? b : a;  // NOLINT(misc-redundant-expression)
}

template <class T, class Operation>
void fold(T* result, const T* next, size_t count, Operation operation) {
  for (size_t i = 0; i < count; ++i) result[i] = operation(result[i], next[i]);
}

template <class T>
void fold(T* result, const T* next, size_t count, Reduction reduction) {
  switch (reduction) {
    case Reduction::None: return;
    case Reduction::Sum:
    case Reduction::Average: return fold(result, next, count, add<T>);
    case Reduction::Product: return fold(result, next, count, multiply<T>);
    case Reduction::Min: return fold(result, next, count, least<T>);
    case Reduction::Max: return fold(result, next, count, greatest<T>);
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    const auto bits = [&](auto operation) {
      fold(result, next, count, [&](T a, T b) { return static_cast<T>(operation(a, b)); });
    };
    if (reduction == Reduction::BitAnd) bits([](T a, T b) { return a & b; });
    if (reduction == Reduction::BitOr) bits([](T a, T b) { return a | b; });
    if (reduction == Reduction::BitXor) bits([](T a, T b) { return a ^ b; });
  }
}

float from_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t to_bfloat16(float value) {  // to the nearest, ties to even
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto rounded = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  return value != value ? uint16_t{0x7fc0} : rounded;
}

float from_float16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1f, fraction = half & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact in float32
    const auto magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  const uint32_t biased = exponent == 0x1f ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | biased << 23 | fraction << 13);
}

uint16_t to_float16(float value) {  // to the nearest, ties to even
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const auto magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;   // NaN
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds to infinity
  if (magnitude < 0x38800000) {  // subnormal: the adder rounds when 0.5 puts the unit at 2^-24
    const auto shifted = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f);
    return static_cast<uint16_t>(sign | (shifted - std::bit_cast<uint32_t>(0.5f)));
  }
  const auto rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded - (uint32_t{112} << 23)) >> 13));
}

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) size_t load_float16_wide(float* out, const uint16_t* in,
                                                             size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(out + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  return i;
}

__attribute__((target("avx,f16c"))) size_t store_float16_wide(uint16_t* out, const float* in,
                                                              size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  return i;
}

bool has_wide_float16() {
  static const bool has = __builtin_cpu_supports("f16c") && __builtin_cpu_supports("avx");
  return has;
}
#else
size_t load_float16_wide(float*, const uint16_t*, size_t) { return 0; }
size_t store_float16_wide(uint16_t*, const float*, size_t) { return 0; }
bool has_wide_float16() { return false; }
#endif

// Storage type (Stored) and accumulation type (Value) of an element type.
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static void load(Value* out, const Stored* in, size_t count) {
    std::memcpy(out, in, count * sizeof(T));
  }
  static void store(Stored* out, const Value* in, size_t count) {
    std::memcpy(out, in, count * sizeof(T));
  }
};

struct BFloat16Format {
  using Stored = uint16_t;
  using Value = float;
  static void load(float* out, const uint16_t* in, size_t count) {
    for (size_t i = 0; i < count; ++i) out[i] = from_bfloat16(in[i]);
  }
  static void store(uint16_t* out, const float* in, size_t count) {
    for (size_t i = 0; i < count; ++i) out[i] = to_bfloat16(in[i]);
  }
};

struct Float16Format {
  using Stored = uint16_t;
  using Value = float;
  static void load(float* out, const uint16_t* in, size_t count) {
    for (size_t i = has_wide_float16() ? load_float16_wide(out, in, count) : 0; i < count; ++i)
      out[i] = from_float16(in[i]);
  }
  static void store(uint16_t* out, const float* in, size_t count) {
    for (size_t i = has_wide_float16() ? store_float16_wide(out, in, count) : 0; i < count; ++i)
      out[i] = to_float16(in[i]);
  }
};

template <class T>
constexpr bool kIsFloat = std::is_same_v<T, float> || std::is_same_v<T, double>;

// The common case, two arrays of float32 or float64, in one pass. `out` may be one of them; ivdep
// tells the compiler that they do not overlap otherwise.
template <class T>
void add_two(T* out, const T* a, const T* b, size_t count, bool average) {
  if (average) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) out[i] = (a[i] + b[i]) / 2;
  } else {
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
  }
}

template <class T>
void add_two_scaled(T* out, const T* a, const T* b, size_t count, T factor) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) out[i] = a[i] * factor + b[i] * factor;
}

template <class Format>
void combine_as(std::byte* out, std::span<const std::byte* const> sources, size_t count,
                Reduction reduction) {
  using Stored = typename Format::Stored;
  using Value = typename Format::Value;
  const auto at = [](const std::byte* data, size_t i) {
    return reinterpret_cast<const Stored*>(data) + i;
  };
  auto* const results = reinterpret_cast<Stored*>(out);
  if constexpr (kIsFloat<Stored>) {
    if (sources.size() == 2 && (reduction == Reduction::Sum || reduction == Reduction::Average))
      return add_two(results, at(sources[0], 0), at(sources[1], 0), count,
                     reduction == Reduction::Average);
  }
  Value block[kBlock], next[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const auto size = std::min(kBlock, count - begin);
    Format::load(block, at(sources[0], begin), size);
    for (size_t source = 1; source < sources.size(); ++source) {
      Format::load(next, at(sources[source], begin), size);
      fold(block, next, size, reduction);
    }
    if constexpr (kIsFloat<Value>)
      if (reduction == Reduction::Average)
        for (size_t i = 0; i < size; ++i) block[i] /= static_cast<Value>(sources.size());
    Format::store(results + begin, block, size);
  }
}

template <class Format>
void scale_as(std::byte* out, const std::byte* in, size_t count, double factor) {
  using Stored = typename Format::Stored;
  using Value = typename Format::Value;
  const auto* const from = reinterpret_cast<const Stored*>(in);
  auto* const to = reinterpret_cast<Stored*>(out);
  const auto by = static_cast<Value>(factor);
  if constexpr (std::is_same_v<Stored, Value>) {
    for (size_t i = 0; i < count; ++i) to[i] = from[i] * by;
  } else {
    Value block[kBlock];
    for (size_t begin = 0; begin < count; begin += kBlock) {
      const auto size = std::min(kBlock, count - begin);
      Format::load(block, from + begin, size);
      for (size_t i = 0; i < size; ++i) block[i] *= by;
      Format::store(to + begin, block, size);
    }
  }
}

// Adds arrays of a block in a balanced binary tree, in the order of the arrays. load(values, i)
// loads array `i`.
template <class Value, class Load>
const Value* add_in_tree(size_t num_sources, size_t size, Value (&levels)[kMaxTreeLevels][kBlock],
                         const Load& load) {
  size_t depth = 0;
  for (size_t i = 0; i < num_sources; ++i) {
    load(levels[depth++], i);
    // As many pending sums are complete as the number of sources so far has zero bits at its end.
    for (auto loaded = i + 1; loaded % 2 == 0; loaded /= 2, --depth)
      fold(levels[depth - 2], levels[depth - 1], size, add<Value>);
  }
  return levels[0];
}

template <class Format>
void add_scaled_as(std::byte* out, std::span<const std::byte* const> sources, size_t count,
                   double factor, SumKind kind) {
  using Stored = typename Format::Stored;
  using Value = typename Format::Value;
  const auto by = static_cast<Value>(factor);
  const auto at = [](const std::byte* data, size_t i) {
    return reinterpret_cast<const Stored*>(data) + i;
  };
  auto* const results = reinterpret_cast<Stored*>(out);
  if constexpr (std::is_same_v<Stored, Value>)
    if (sources.size() == 2)
      return add_two_scaled(results, at(sources[0], 0), at(sources[1], 0), count, by);
  Value block[kBlock], next[kBlock];
  Stored rounded[kBlock];
  const auto load = [&](Value* values, const Stored* from, size_t size) {
    Format::load(values, from, size);
    for (size_t i = 0; i < size; ++i) values[i] *= by;
    if constexpr (std::is_same_v<Stored, Value>) return;
    Format::store(rounded, values, size);
    Format::load(values, rounded, size);
  };
  if (kind == SumKind::Tree) {
    Value levels[kMaxTreeLevels][kBlock];
    for (size_t begin = 0; begin < count; begin += kBlock) {
      const auto size = std::min(kBlock, count - begin);
      const auto* const sum = add_in_tree(
          sources.size(), size, levels,
          [&](Value* values, size_t source) { load(values, at(sources[source], begin), size); });
      Format::store(results + begin, sum, size);
    }
    return;
  }
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const auto size = std::min(kBlock, count - begin);
    load(block, at(sources[0], begin), size);
    for (size_t source = 1; source < sources.size(); ++source) {
      load(next, at(sources[source], begin), size);
      for (size_t i = 0; i < size; ++i) block[i] += next[i];
    }
    Format::store(results + begin, block, size);
  }
}

Reduction of_bool(Reduction reduction) {
  switch (reduction) {
    case Reduction::Sum:
    case Reduction::Max: return Reduction::BitOr;
    case Reduction::Product:
    case Reduction::Min: return Reduction::BitAnd;
    default: return reduction;
  }
}

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

bool is_defined(Reduction reduction, ElementType type) {
  const bool floating = type == ElementType::Float16 || type == ElementType::BFloat16 ||
                        type == ElementType::Float32 || type == ElementType::Float64;
  const bool bits = reduction == Reduction::BitAnd || reduction == Reduction::BitOr ||
                    reduction == Reduction::BitXor;
  if (type == ElementType::Bytes || reduction == Reduction::None) return false;
  return floating ? !bits : reduction != Reduction::Average;
}

void combine(std::byte* out, std::span<const std::byte* const> sources, size_t count,
             ElementType type, Reduction reduction) {
  switch (type) {
    case ElementType::Bytes: return;
    case ElementType::Bool:
      return combine_as<Plain<uint8_t>>(out, sources, count, of_bool(reduction));
    case ElementType::UInt8: return combine_as<Plain<uint8_t>>(out, sources, count, reduction);
    case ElementType::Int8: return combine_as<Plain<int8_t>>(out, sources, count, reduction);
    case ElementType::Int16: return combine_as<Plain<int16_t>>(out, sources, count, reduction);
    case ElementType::Int32: return combine_as<Plain<int32_t>>(out, sources, count, reduction);
    case ElementType::Int64: return combine_as<Plain<int64_t>>(out, sources, count, reduction);
    case ElementType::Float16: return combine_as<Float16Format>(out, sources, count, reduction);
    case ElementType::BFloat16: return combine_as<BFloat16Format>(out, sources, count, reduction);
    case ElementType::Float32: return combine_as<Plain<float>>(out, sources, count, reduction);
    case ElementType::Float64: return combine_as<Plain<double>>(out, sources, count, reduction);
  }
}

void scale(std::byte* out, const std::byte* in, size_t count, ElementType type, double factor) {
  switch (type) {
    case ElementType::Float64: return scale_as<Plain<double>>(out, in, count, factor);
    case ElementType::Float16: return scale_as<Float16Format>(out, in, count, factor);
    case ElementType::BFloat16: return scale_as<BFloat16Format>(out, in, count, factor);
    default: return scale_as<Plain<float>>(out, in, count, factor);
  }
}

void add_scaled(std::byte* out, std::span<const std::byte* const> sources, size_t count,
                ElementType type, double factor, SumKind kind) {
  const auto add = [&]<class Format>(Format) {
    add_scaled_as<Format>(out, sources, count, factor, kind);
  };
  switch (type) {
    case ElementType::Float64: return add(Plain<double>());
    case ElementType::Float16: return add(Float16Format());
    case ElementType::BFloat16: return add(BFloat16Format());
    default: return add(Plain<float>());
  }
}

void SumOrder::add(std::byte* out, std::span<const std::byte* const> sources, size_t count,
                   ElementType type) const {
  if (kind_ == SumKind::Tree) return add_scaled(out, sources, count, type, 1, kind_);
  combine(out, sources, count, type, Reduction::Sum);
}

SumOrder::SumOrder(int num_ranks, size_t count, size_t element_bytes, SumKind kind)
    : kind_(kind), num_ranks_(num_ranks), last_(static_cast<size_t>(num_ranks) - 1) {
  // As in gloo/allreduce.cc (ring): at least two segments per rank, of at most 1 MiB each.
  constexpr size_t kMaxSegment = size_t{1} << 20;
  const auto ranks = static_cast<size_t>(num_ranks);
  const auto bytes = count * element_bytes;
  const auto largest = element_bytes * std::max<size_t>(1, kMaxSegment / element_bytes);
  const auto segments = round_up(std::max((bytes + largest - 1) / largest, 2 * ranks), ranks);
  const auto segment = round_up((bytes + segments - 1) / segments, element_bytes);
  chunk_ = std::max<size_t>(1, segments / ranks * segment / element_bytes);
}

}  // namespace lockstep::distributed::shm
