// `pad_to` of datasets of text: the length to which shorter samples of a batch are padded. No LibTorch.
#pragma once

#include <array>

namespace lockstep::data {

// `length` of the dataset, or the longest sample of the batch.
enum class PaddedTo { Length, Longest };
constexpr auto choices(PaddedTo) { return std::array{"length", "longest"}; }

}  // namespace lockstep::data
