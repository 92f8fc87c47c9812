// Results of checks, as `lockstep doctor` prints them.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

enum class Health {
  Good,
  Warning,  // training works, but slower or with restrictions
  Problem,  // training, or part of it, does not work
};

struct Finding {
  std::string what;
  Health health = Health::Good;
  std::string text;  // includes a remedy unless the health is Good
};

// One line, with a line break.
std::string line_of_finding(const Finding& finding);

// An array of {what, health: good, warning or problem, text}, with a line break.
std::string json_of_findings(const std::vector<Finding>& findings);

// That of an environment failure if there is a problem, else 0.
int exit_code_of_findings(const std::vector<Finding>& findings);

}  // namespace lockstep
