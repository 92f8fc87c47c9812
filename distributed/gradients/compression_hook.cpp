#include "distributed/gradients/compression_hook.h"

namespace lockstep::distributed {

CompressionHook::CompressionHook(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                 GradientCompression compression)
    : CppCommHookInterface(group),
      type_(compression == GradientCompression::Fp16 ? at::kHalf : at::kBFloat16) {}

c10::intrusive_ptr<c10::ivalue::Future> CompressionHook::runHook(c10d::GradBucket& bucket) {
  std::vector<at::Tensor> compressed = {
      bucket.getBuffer().to(type_).div_(static_cast<int64_t>(state_->getSize()))};
  const auto summed = state_->allreduce(compressed)->getFuture();
  const auto decompress = [buffer = bucket.getBuffer()](c10::ivalue::Future& future) {
    buffer.copy_(future.value().toTensorVector().at(0));
    return c10::IValue(buffer);
  };
  return summed->then(decompress, c10::TensorType::get());
}

}  // namespace lockstep::distributed
