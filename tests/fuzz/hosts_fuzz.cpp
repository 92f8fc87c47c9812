// Lists of hosts in a hostfile and in Slurm's environment, and the launch command for a remote
// host: each is accepted or rejected with a Config error, and no accepted name can be an option or
// a shell command.

#include <cstdlib>
#include <string>

#include "launch/environment/node_list.h"
#include "launch/environment/node_order.h"
#include "launch/ssh/hostfile.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

void require_harmless(const std::string& name) {
  if (name.empty() || name.front() == '-' ||
      name.find_first_of(" \t\n;&|<>$`'\"\\(){}*?!") != std::string::npos)
    std::abort();
}

template <class Read>
void read_or_refuse(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {
      "gpu1 slots=4\n# comment\nanna@gpu-2.example.org:2222 slots=4\n[fd00::5]:22\n",
      "n[1-3,07],m02", "r[1-2]n[4-8]",
      R"({"version": "0.1.0", "directory": "/x", "arguments": ["launch"], "environment": {"A": "b"}, "grace_ms": 1})"};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto host = launch::first_host(text)) require_harmless(*host);
  read_or_refuse([&] {
    for (const auto& host : launch::parse_hostfile(text, "hosts")) {
      require_harmless(host.name);
      if (host.user) require_harmless(*host.user);
    }
  });
  read_or_refuse([&] { launch::parse_node_order(text); });
  return 0;
}
