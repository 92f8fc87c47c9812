// Environment variables as numbers, with errors that name the variable.
#pragma once

#include <optional>
#include <string>

namespace lockstep::launch {

// `text`, which is part of the variable `name`. Throws Config when it is no number of at least 0.
int number_in_variable(const std::string& text, const std::string& name);

// nullopt when it is not set or empty. Throws Config when it is no number of at least 0.
std::optional<int> read_int_variable(const char* name);

// Throws Config also when it is not set, though `because` is.
int require_int_variable(const char* name, const char* because);

// Two variables that cannot both be right: always throws Config.
[[noreturn]] void contradict(const char* first, int first_value, const char* second,
                             int second_value, const char* what_is_valid);

}  // namespace lockstep::launch
