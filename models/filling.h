// Fills parameters with values from elsewhere, e.g. from a file.
//
// The trainer can build a model without its values, so that a rank that needs only a part of them
// never has all in memory (trainer/prepared/deferred_init.h). Random fills of constructors are deferred
// by themselves; a constructor that fills a parameter otherwise calls fill().
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>

namespace lockstep::models {

// Writes all elements of a tensor, the same ones each time. May be called after the constructor.
using Fill = std::function<void(const at::Tensor& tensor)>;

// While it is set, it is called with the fills of this thread instead of executing them.
inline thread_local std::function<void(const at::Tensor& tensor, Fill fill)> defer_fill;

// Calls `write` with `tensor`, contiguous and with separate memory, now or later.
inline void fill(const at::Tensor& tensor, Fill write) {
  if (defer_fill) return defer_fill(tensor, std::move(write));
  write(tensor);
}

}  // namespace lockstep::models
