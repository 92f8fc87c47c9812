#include "trainer/state/state_stream.h"

#include "lockstep/error.h"

namespace lockstep::trainer {

at::Tensor StateStream::take(const std::string& list, const std::string& name) {
  while (next_ < tensors_.size()) {
    const auto& next = tensors_[next_++];
    const bool is_wanted = next.list == list && next.name == name;
    auto whole = assemble(world_, next.tensor, is_wanted, "checkpoint");
    if (is_wanted) return whole;
  }
  throw Error(ErrorKind::Bug, "'" + name + "' is taken out of order");
}

void StateStream::finish() {
  while (next_ < tensors_.size())
    assemble(world_, tensors_[next_++].tensor, /*is_wanted=*/false, "checkpoint");
}

}  // namespace lockstep::trainer
