// The template of warm starts, see launch/warm/warm_template.h: the part of the program that has
// loaded LibTorch.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::launch {

// `lockstep-trainer OPTION FD LABEL SPACE`: FD is the socket to the owner. LABEL says in a list of
// processes what it is for. The command lines of workers are written over all of this, and the variables
// that a worker has and the template has not over the value of kTemplateSpace: lists of processes show those
// of the worker.
inline constexpr const char* kTemplateOption = "--warm-template";
inline constexpr int kTemplateArguments = 5;
inline constexpr size_t kTemplateBytes = 4000;  // of either space

// Whether the command line is that of a template.
bool is_template(int argc, char** argv);

// Forks workers until the owner has ended: then, or if the process has several threads, returns nullopt.
// In a worker that the launcher has started, returns its command line, program first; its environment
// and descriptors are then as if it had been executed. Call at the begin of main().
std::optional<std::vector<std::string>> serve_as_template(char** argv);

}  // namespace lockstep::launch
