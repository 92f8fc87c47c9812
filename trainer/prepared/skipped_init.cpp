#include "trainer/prepared/skipped_init.h"

#include <torch/library.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep::trainer {
namespace {

// LibTorch has no other key for modes in C++; nothing in it uses this one.
constexpr auto kModeKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

constexpr std::array<std::string_view, 7> kRandomFills = {
    "aten::uniform_", "aten::normal_",      "aten::random_",    "aten::bernoulli_",
    "aten::cauchy_",  "aten::exponential_", "aten::log_normal_"};

void skip_or_run(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard without_mode(kModeKey);
  if (std::ranges::find(kRandomFills, std::string_view(op.schema().name())) == kRandomFills.end())
    return op.callBoxed(stack);
  const auto num_arguments = op.schema().arguments().size();
  const auto self = torch::jit::peek(*stack, 0, num_arguments);
  torch::jit::drop(*stack, num_arguments);
  torch::jit::push(*stack, self);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&skip_or_run>());
}

SkippedInit::SkippedInit() : guard_(c10::DispatchKeySet(kModeKey)) {}

}  // namespace lockstep::trainer
