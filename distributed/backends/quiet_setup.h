// LibTorch's warnings while the ranks connect. Only files of distributed/ include this.
//
// Note [Warnings of the setup]: c10d looks up the host name of each connection for its log and warns
// if DNS has none. No rank needs that name. Failures are exceptions, and c10d logs them as errors.
#pragma once

#include <c10/util/Logging.h>

namespace lockstep::distributed {

// Suppresses LibTorch's warnings during its lifetime, but not its errors; nothing if the user has
// chosen a level (TORCH_CPP_LOG_LEVEL).
class QuietSetup {
 public:
  QuietSetup() : before_(FLAGS_caffe2_log_level) {
    if (before_ == c10::GLOG_WARNING) FLAGS_caffe2_log_level = c10::GLOG_ERROR;
  }
  ~QuietSetup() { FLAGS_caffe2_log_level = before_; }
  QuietSetup(const QuietSetup&) = delete;
  QuietSetup& operator=(const QuietSetup&) = delete;

 private:
  int before_;
};

}  // namespace lockstep::distributed
