// Parses the arguments of a command with cxxopts and reports any problem as one Config error.
#pragma once

#include <cxxopts.hpp>
#include <string>
#include <vector>

#include "lockstep/error.h"

namespace lockstep::cli {

// The group of positional arguments.
constexpr auto kPositional = "positional";

// Parses `words`, the first of which is the name of the command, according to `options`. Errors
// begin with options.program(), such as "lockstep runs list". Throws Config for unknown options
// (suggesting the nearest), missing values and unexpected arguments.
cxxopts::ParseResult parse_words(cxxopts::Options& options, const std::vector<std::string>& words);

// The message of an exception of cxxopts, in ASCII.
std::string problem_of(const cxxopts::exceptions::exception& error);

// The values of a repeatable option, in the order given.
std::vector<std::string> all_values(const cxxopts::ParseResult& parsed, const std::string& name);

// `words`: without the name of the command. `help` counts only as the first one: others may be values.
bool wants_help(const std::vector<std::string>& words);

// For a `program` such as "lockstep runs" that was called without one of its commands.
Error missing_command(const std::string& program, const std::vector<std::string>& valid);

// Flushes stdout. Call it directly after writing. Throws Environment if the output was not written, e.g.
// to a full disk.
void verify_written();

// Whether the value of --dir is a path with a scheme.
bool is_in_store(const std::string& dir);

}  // namespace lockstep::cli
