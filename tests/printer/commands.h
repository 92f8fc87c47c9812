// The commands of lockstep_printer, which print the output of parts of Lockstep for comparison in
// Python tests. Each returns an exit code; errors are thrown as lockstep::Error.
#pragma once

#include <string>
#include <vector>

namespace lockstep::printer {

using Arguments = std::vector<std::string>;

int print_chat(const Arguments& arguments);
int print_dataset(const Arguments& arguments);
int print_model(const Arguments& arguments);
int print_sampler(const Arguments& arguments);
int print_sampling(const Arguments& arguments);
int print_split(const Arguments& arguments);
int check_resume(const Arguments& arguments);

}  // namespace lockstep::printer
