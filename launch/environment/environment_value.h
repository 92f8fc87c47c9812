// Environment variables as numbers, with errors that name the variable.
#pragma once

#include <optional>
#include <string>

namespace lockstep::launch {

// Parses `text`, part of the variable `name`. Throws Config if it is not an integer >= 0.
int number_in_variable(const std::string& text, const std::string& name);

// nullopt if the variable is not set or empty. Throws Config if it is not an integer >= 0.
std::optional<int> read_int_variable(const char* name);

// Like read_int_variable(), but required: throws Config, naming `because`, if it is not set.
int require_int_variable(const char* name, const char* because);

// Reports that two variables contradict each other. Always throws Config.
[[noreturn]] void contradict(const char* first, int first_value, const char* second,
                             int second_value, const char* what_is_valid);

}  // namespace lockstep::launch
