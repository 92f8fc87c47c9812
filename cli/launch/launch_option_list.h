// The options of `lockstep launch`: names, help and defaults.
#pragma once

#include <cxxopts.hpp>

namespace lockstep::cli {

cxxopts::Options launch_options();

// What its help says after the options.
extern const char* const kAfterLaunchOptions;

}  // namespace lockstep::cli
