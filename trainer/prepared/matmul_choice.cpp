#include "trainer/prepared/matmul_choice.h"

#include <ATen/CPUFunctions.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <memory>
#include <optional>
#include <string_view>

#include "lockstep/error.h"
#include "lockstep/world.h"

namespace lockstep::trainer {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Scalars = c10::List<std::optional<at::Scalar>>;
using OnednnLinear = at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                                std::string_view, Scalars, std::optional<std::string_view>);

constexpr const char* kLinear = "mkldnn::_linear_pointwise";
// Below these sizes, preparing oneDNN takes longer than it saves.
constexpr int64_t kLeastProducts = int64_t{1} << 20, kLeastRows = 64;

// Without expanded dimensions, such as those of the gradient of a sum.
bool is_matrix(const at::Tensor& x) {
  return x.dim() == 2 && x.scalar_type() == at::kFloat && x.is_non_overlapping_and_dense();
}

bool is_large(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  return is_matrix(a_MK) && is_matrix(b_KN) && a_MK.size(1) == b_KN.size(0) &&
         a_MK.size(0) >= kLeastRows && a_MK.numel() * b_KN.size(1) >= kLeastProducts;
}

// a b + bias
at::Tensor onednn_product(const at::Tensor& a_MK, const at::Tensor& b_KN,
                          const OptionalTensor& bias_N) {
  static const auto linear =
      c10::Dispatcher::singleton().findSchemaOrThrow(kLinear, "").typed<OnednnLinear>();
  return linear.call(a_MK, b_KN.t(), bias_N, "none", Scalars(), "");
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  return is_large(a, b) ? onednn_product(a, b, std::nullopt) : at::cpu::mm(a, b);
}

at::Tensor product_with_bias(const at::Tensor& bias, const at::Tensor& a, const at::Tensor& b,
                             const at::Scalar& beta, const at::Scalar& alpha) {
  const bool is_plain = beta.equal(1) && alpha.equal(1) && bias.dim() == 1 &&
                        bias.scalar_type() == at::kFloat && is_large(a, b) &&
                        bias.size(0) == b.size(1);
  return is_plain ? onednn_product(a, b, bias) : at::cpu::addmm(bias, a, b, beta, alpha);
}

// LibTorch warns about kernels that are replaced.
class NoWarnings final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// In effect while the result exists.
std::unique_ptr<torch::Library> replace_products() {
  NoWarnings none;
  const c10::WarningUtils::WarningHandlerGuard guard(&none);
  auto library = std::make_unique<torch::Library>(torch::Library::IMPL, "aten",
                                                  c10::DispatchKey::CPU, __FILE__, __LINE__);
  library->impl("mm", product);
  library->impl("addmm", product_with_bias);
  return library;
}

}  // namespace

void choose_matmul(const RunConfig& config) {
  static std::unique_ptr<torch::Library> replaced;
  if (config.train.matmul == Matmul::Torch) return replaced.reset();
  if (selects_gpu(config.distributed.device))
    throw config_error(
        "train.matmul: onednn is for CPUs: remove it, or set distributed.device: cpu");
  if (config.train.precision != Precision::Float32)
    throw config_error(
        "train.matmul: onednn is for train.precision: fp32: remove it, or change train.precision");
  if (config.model.name() == "compiled")
    throw config_error("train.matmul: onednn has no effect on a compiled model: remove it");
  if (!c10::Dispatcher::singleton().findSchema({kLinear, ""}))
    throw config_error("train.matmul: onednn: this LibTorch was built without oneDNN");
  if (!replaced) replaced = replace_products();
}

}  // namespace lockstep::trainer
