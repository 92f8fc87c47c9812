// The words after a command, as cxxopts reads them; whatever is wrong with them is one Config
// error.
#pragma once

#include <cxxopts.hpp>
#include <string>
#include <vector>

namespace lockstep::cli {

// The group of options that are given by their place alone.
constexpr auto kPositional = "positional";

// Reads `words`, the first of which is the command's own name. Its other options are known from
// `options`, whose program() is what errors begin with, such as "lockstep runs list". Throws Config
// for unknown options, with the nearest, for missing values and for words that nobody asked for.
cxxopts::ParseResult parse_words(cxxopts::Options& options, const std::vector<std::string>& words);

// The values of an option that may be given several times, in that order.
std::vector<std::string> all_values(const cxxopts::ParseResult& parsed, const std::string& name);

bool wants_help(const std::vector<std::string>& words);

}  // namespace lockstep::cli
