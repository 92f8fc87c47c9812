// The tokens of a text, or of a pair of texts.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::formats {

struct EncodedText {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;  // of each token: which text of a pair it belongs to
};

}  // namespace lockstep::formats
