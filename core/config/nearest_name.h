// Suggestions ("did you mean ...?") for misspelled names.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// The candidate with the smallest edit distance (Damerau, optimal string alignment), if the
// distance is small enough for a likely typo: at most 1 + a third of the length of `given`.
std::optional<std::string> nearest_name(const std::string& given,
                                        const std::vector<std::string>& candidates);

// "; did you mean 'lr'? valid: lr, momentum", to append to an error about an unknown name `given`.
std::string suggest(const std::string& given, const std::vector<std::string>& candidates);

}  // namespace lockstep
