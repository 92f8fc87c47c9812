#include "trainer/optimizers/packed_state.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <span>

namespace lockstep::trainer {
namespace {

constexpr int64_t kRandomBits = 24;

// Random bits for each element, of the bits of a float32 and the step (Note [Stochastic rounding]).
at::Tensor hash_of(const at::Tensor& values, const at::Tensor& step) {
  auto hash = values.view(at::kInt).mul(-1640531535);  // 0x9E3779B1
  hash.add_(step.to(at::kInt).mul_(668265263));
  hash.bitwise_xor_(hash.bitwise_right_shift(15)).mul_(-2048144777);  // 0x85EBCA77
  return hash.bitwise_xor_(hash.bitwise_right_shift(13));
}

// Rounds down or up to integers, in place.
at::Tensor round_stochastically(at::Tensor scaled, const at::Tensor& values,
                                const at::Tensor& step) {
  auto random = hash_of(values, step).bitwise_and_((1 << kRandomBits) - 1).to(at::kFloat);
  return scaled.add_(random, 1.0 / (1 << kRandomBits)).floor_();
}

using OnRows = std::function<void(int64_t begin, int64_t rows, int64_t columns, int64_t scale)>;

// Calls `act` for the full blocks, and for the last one if it is smaller.
void for_rows(int64_t numel, int64_t per_scale, const OnRows& act) {
  const auto full = numel / per_scale;
  if (full > 0) act(0, full, per_scale, 0);
  if (const auto rest = numel % per_scale; rest > 0) act(full * per_scale, 1, rest, full);
}

at::Tensor rows_of(const at::Tensor& flat, int64_t begin, int64_t rows, int64_t columns) {
  return flat.narrow(0, begin, rows * columns).view({rows, columns});
}

// Each block divided by its scale, which is written to `scales`.
at::Tensor normalized(const at::Tensor& magnitudes, const at::Tensor& scales) {
  const auto largest = magnitudes.amax({1}, /*keepdim=*/true);
  scales.copy_(largest.view(-1));
  return magnitudes.div(largest.clamp_min(std::numeric_limits<float>::min()));
}

bool have_loops(const at::Tensor& packed, const at::Tensor& values) {
  return values.is_cpu() && packed.is_contiguous() && values.is_contiguous();
}

int32_t number_of(const at::Tensor& step) {
  return static_cast<int32_t>(*step.const_data_ptr<float>());
}

// Elements [begin, end) of a contiguous tensor.
template <class T>
std::span<T> part_of_memory(const at::Tensor& tensor, int64_t begin, int64_t end) {
  return {static_cast<T*>(tensor.mutable_data_ptr()) + begin, static_cast<size_t>(end - begin)};
}

// Calls act(begin, end) for parts of `numel` elements, which begin at multiples of `unit`, in the
// threads of LibTorch.
template <class Act>
void for_parts(int64_t numel, int64_t unit, const Act& act) {
  constexpr int64_t kLeastElements = 32 * 1024;  // of a thread
  const auto count = (numel + unit - 1) / unit;
  at::parallel_for(0, count, (kLeastElements + unit - 1) / unit, [&](int64_t begin, int64_t end) {
    act(begin * unit, std::min(end * unit, numel));
  });
}

ScaledBlocks blocks_from(const at::Tensor& scales, int64_t begin, int64_t per_scale) {
  return {scales.mutable_data_ptr<float>() + begin / per_scale, static_cast<size_t>(per_scale)};
}

template <class T>
void pack_in_loops(const at::Tensor& packed, const at::Tensor& scales, const at::Tensor& values,
                   const at::Tensor& step, int64_t per_scale, const auto& loop) {
  for_parts(values.numel(), per_scale, [&](int64_t begin, int64_t end) {
    loop(part_of_memory<T>(packed, begin, end), blocks_from(scales, begin, per_scale),
         part_of_memory<const float>(values, begin, end), number_of(step));
  });
}

template <class T>
at::Tensor unpack_in_loops(const at::Tensor& packed, const at::Tensor& scales, int64_t per_scale,
                           const auto& loop) {
  auto values = at::empty(packed.sizes(), packed.options().dtype(at::kFloat));
  for_parts(values.numel(), per_scale, [&](int64_t begin, int64_t end) {
    loop(part_of_memory<const T>(packed, begin, end), blocks_from(scales, begin, per_scale),
         part_of_memory<float>(values, begin, end));
  });
  return values;
}

}  // namespace

void pack_bf16(const at::Tensor& packed, const at::Tensor& values, const at::Tensor& step) {
  if (have_loops(packed, values))
    return for_parts(values.numel(), 1, [&](int64_t begin, int64_t end) {
      pack_bf16_loop(part_of_memory<uint16_t>(packed, begin, end),
                     part_of_memory<const float>(values, begin, end), number_of(step));
    });
  auto bits = hash_of(values, step).bitwise_and_(0xffff);
  bits.add_(values.view(at::kInt)).bitwise_and_(-65536);
  packed.copy_(bits.view(at::kFloat));
}

void pack_signed(const at::Tensor& packed, const at::Tensor& scales, const at::Tensor& values,
                 const at::Tensor& step, int64_t per_scale) {
  if (have_loops(packed, values))
    return pack_in_loops<int8_t>(packed, scales, values, step, per_scale, pack_signed_loop);
  for_rows(values.numel(), per_scale, [&](auto begin, auto rows, auto columns, auto scale) {
    const auto part = rows_of(values, begin, rows, columns);
    auto roots = normalized(part.abs(), scales.narrow(0, scale, rows)).sqrt_().mul_(127);
    round_stochastically(roots, part, step).clamp_max_(127).mul_(part.sign());
    rows_of(packed, begin, rows, columns).copy_(roots);
  });
}

at::Tensor unpack_signed(const at::Tensor& packed, const at::Tensor& scales, int64_t per_scale) {
  if (have_loops(packed, packed))
    return unpack_in_loops<int8_t>(packed, scales, per_scale, unpack_signed_loop);
  auto values = packed.to(at::kFloat).mul_(1.0 / 127);
  values.mul_(values.abs());
  for_rows(values.numel(), per_scale, [&](auto begin, auto rows, auto columns, auto scale) {
    rows_of(values, begin, rows, columns).mul_(scales.narrow(0, scale, rows).unsqueeze(1));
  });
  return values;
}

void pack_squares(const at::Tensor& packed, const at::Tensor& scales, const at::Tensor& values,
                  const at::Tensor& step, int64_t per_scale) {
  if (have_loops(packed, values))
    return pack_in_loops<uint8_t>(packed, scales, values, step, per_scale, pack_squares_loop);
  for_rows(values.numel(), per_scale, [&](auto begin, auto rows, auto columns, auto scale) {
    const auto part = rows_of(values, begin, rows, columns);
    auto roots = normalized(part, scales.narrow(0, scale, rows)).sqrt_().sqrt_().mul_(255);
    round_stochastically(roots, part, step).clamp_(1, 255);
    rows_of(packed, begin, rows, columns).copy_(roots);
  });
}

at::Tensor unpack_squares(const at::Tensor& packed, const at::Tensor& scales, int64_t per_scale) {
  if (have_loops(packed, packed))
    return unpack_in_loops<uint8_t>(packed, scales, per_scale, unpack_squares_loop);
  auto values = packed.to(at::kFloat).mul_(1.0 / 255).square_().square_();
  for_rows(values.numel(), per_scale, [&](auto begin, auto rows, auto columns, auto scale) {
    rows_of(values, begin, rows, columns).mul_(scales.narrow(0, scale, rows).unsqueeze(1));
  });
  return values;
}

bool update_in_loop(const PackedAdam& tensors, const AdamNumbers& numbers, const at::Tensor& step,
                    int64_t per_scale) {
  const auto& t = tensors;
  if (!have_loops(t.average, t.parameter) || !have_loops(t.square, t.gradient) ||
      t.parameter.scalar_type() != at::kFloat || t.gradient.scalar_type() != at::kFloat)
    return false;
  const bool has_scales = t.average_scales.defined();
  for_parts(t.parameter.numel(), has_scales ? per_scale : 1, [&](int64_t begin, int64_t end) {
    const auto parameters = part_of_memory<float>(t.parameter, begin, end);
    const auto gradients = part_of_memory<const float>(t.gradient, begin, end);
    if (has_scales)
      adam_int8_loop(numbers, parameters, gradients, part_of_memory<int8_t>(t.average, begin, end),
                     blocks_from(t.average_scales, begin, per_scale),
                     part_of_memory<uint8_t>(t.square, begin, end),
                     blocks_from(t.square_scales, begin, per_scale), number_of(step));
    else
      adam_bf16_loop(numbers, parameters, gradients,
                     part_of_memory<uint16_t>(t.average, begin, end),
                     part_of_memory<uint16_t>(t.square, begin, end), number_of(step));
  });
  return true;
}

}  // namespace lockstep::trainer
