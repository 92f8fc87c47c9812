// "Did you mean ...?" for every place where a user names something.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// The candidate with the smallest edit distance (Damerau, optimal string alignment), if it is close
// enough to be a likely typing error: at most 1 + a third of the length of `given`.
std::optional<std::string> nearest_name(const std::string& given,
                                        const std::vector<std::string>& candidates);

// "; did you mean 'lr'? valid: lr, momentum" — to be appended to an error about an unknown `given`.
std::string suggest(const std::string& given, const std::vector<std::string>& candidates);

}  // namespace lockstep
