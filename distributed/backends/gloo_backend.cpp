// The only file that includes ProcessGroupGloo.hpp. Note [Gloo headers]: LibTorch's wheel ships no
// gloo headers, and Debian's libgloo-dev is older than the gloo inside LibTorch. That is safe as
// long as gloo's types are only held by pointer and this object defines no gloo symbols except the
// type information of gloo::Exception, which a test checks.
#include <gloo/common/error.h>
#include <gloo/common/logging.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <string_view>

#include "distributed/backends/backends.h"

namespace lockstep::distributed {

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size,
                                                    std::chrono::milliseconds timeout,
                                                    const std::string& address) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
  try {
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, world_size, options);
  } catch (const c10::Error& error) {
    // LibTorch wraps Gloo's exception in one that does not say that it is about communication.
    const std::string_view text = error.what_without_backtrace();
    if (text.find("connectFullMesh failed") == text.npos) throw;
    throw c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                                error.what_without_backtrace());
  }
}

bool is_gloo_exception(const std::exception& error) {
  return dynamic_cast<const gloo::Exception*>(&error) ||
         dynamic_cast<const gloo::EnforceNotMet*>(&error);
}

}  // namespace lockstep::distributed
