#include "launch/launcher.h"

#include <fcntl.h>
#include <unistd.h>

#include "core/error.h"
#include "core/system/local_address.h"
#include "launch/agent.h"

namespace lockstep {
namespace {

// A pipe that took the number of a closed standard stream would be lost in a worker.
void open_standard_streams() {
  while (true) {
    const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0) throw errno_error("cannot open /dev/null");
    if (fd > STDERR_FILENO) {
      ::close(fd);
      return;
    }
  }
}

}  // namespace

LaunchReport run_workers(const LaunchOptions& options, const LogDirectory& log_dir) {
  verify(options);
  open_standard_streams();
  auto named = options;
  if (named.host.empty()) named.host = own_host_name();
  return Agent(named, log_dir).run();
}

}  // namespace lockstep
