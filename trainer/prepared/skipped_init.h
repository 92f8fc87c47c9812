// Building a model without initial values.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace lockstep::trainer {

// During its lifetime, random in-place operations of this thread (uniform_(), normal_(), ...) do
// nothing: weights that another rank will broadcast take no time, and no memory before they are
// written. Constants are still computed.
class SkippedInit {
 public:
  SkippedInit();

 private:
  c10::impl::IncludeDispatchKeyGuard guard_;
};

}  // namespace lockstep::trainer
