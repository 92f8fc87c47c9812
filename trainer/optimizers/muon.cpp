// Muon (Jordan et al., 2024): the momentum of a matrix, made orthogonal by Newton-Schulz iterations
// in bfloat16. The operations of torch.optim.Muon, in its order. Other parameters are updated as by
// torch.optim.AdamW(fused=True).
#include <ATen/ATen.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>

#include "trainer/optimizers/foreach_optimizer.h"

namespace lockstep::trainer {
namespace {

enum class AdjustedLr { Original, MatchRmsAdamW };
constexpr auto choices(AdjustedLr) { return std::array{"original", "match_rms_adamw"}; }

struct MuonAdamWConfig {
  std::vector<std::string> match = {"*emb*", "*wte*", "*wpe*", "*head*"};
  std::optional<double> lr;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;
};

struct MuonConfig {
  double lr = 1e-3;
  double momentum = 0.95;
  bool nesterov = true;
  double weight_decay = 0.1;
  int64_t iterations = 5;
  std::vector<double> coefficients = {3.4445, -4.775, 2.0315};
  double eps = 1e-7;
  AdjustedLr adjust_lr = AdjustedLr::Original;
  MuonAdamWConfig adamw;
};

template <class V>
void fields(V& v, MuonAdamWConfig& c) {
  v("match", c.match,
    "patterns of the names of matrices that are no hidden layers: embeddings and heads");
  v("lr", c.lr, "learning rate (empty: that of the matrices)", above(0));
  v("betas", c.betas, "decay rates of the averages of gradient and squared gradient", at_least(0),
    below(1));
  v("eps", c.eps, "added to the denominator", above(0));
  v("weight_decay", c.weight_decay, "decoupled weight decay", at_least(0));
}

template <class V>
void fields(V& v, MuonConfig& c) {
  v("lr", c.lr, "learning rate of matrices", above(0));
  v("momentum", c.momentum, "decay rate of the average of gradients", at_least(0), below(1));
  v("nesterov", c.nesterov, "use Nesterov momentum");
  v("weight_decay", c.weight_decay, "decoupled weight decay of matrices", at_least(0));
  v("iterations", c.iterations, "Newton-Schulz iterations", at_least(1), at_most(99));
  v("coefficients", c.coefficients, "coefficients of an iteration");
  v("eps", c.eps, "least norm that a matrix is divided by", above(0));
  v("adjust_lr", c.adjust_lr,
    "factor of the learning rate of an A x B matrix: original: sqrt(max(1, A / B)); "
    "match_rms_adamw: 0.2 sqrt(max(A, B)), for the learning rate and weight decay of adamw");
  v("adamw", c.adamw, "AdamW, for all parameters except matrices, and for embeddings and heads");
}

class Muon final : public ForeachOptimizer {
 public:
  using Config = MuonConfig;

  Muon(const Config& config, const NamedTensors& parameters)
      : ForeachOptimizer(parameters, config.lr, {}), config_(config) {
    verify_betas(config.adamw.betas);
    if (config.coefficients.size() != 3)
      throw config_error("optimizer.coefficients: expected three numbers");
    momentum_ = add_state("momentum_buffer", [&](const auto& name, const auto& parameter) {
      return is_hidden(name, parameter) ? zeros_of(parameter) : at::Tensor();
    });
    const auto average = [&](const auto& name, const auto& parameter) {
      return is_hidden(name, parameter) ? at::Tensor() : zeros_of(parameter);
    };
    exp_avg_ = add_state("exp_avg", average);
    exp_avg_sq_ = add_state("exp_avg_sq", average);
    step_ = add_state("step", [&](const auto& name, const auto& parameter) {
      return is_hidden(name, parameter) ? at::Tensor()
                                        : at::zeros({}, parameter.options()).detach();
    });
  }

  bool is_elementwise() const override { return false; }

 private:
  static at::Tensor zeros_of(const at::Tensor& parameter) {
    return at::zeros_like(parameter, at::MemoryFormat::Preserve).detach();
  }

  bool is_hidden(const std::string& name, const at::Tensor& parameter) const {
    return parameter.dim() == 2 &&
           std::ranges::none_of(config_.adamw.match, [&](const std::string& pattern) {
             return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
           });
  }

  bool uses_blocks() const override { return false; }

  void update(const Lists& lists, double lr, double /*weight_decay*/) override {
    Lists others;
    others.states.resize(3);
    for (size_t i = 0; i < lists.parameters.size(); ++i) {
      const auto& momentum = lists.states[momentum_][i];
      if (momentum.defined()) {
        update_matrix(lists.parameters[i], lists.gradients[i], momentum, lr);
        continue;
      }
      others.parameters.push_back(lists.parameters[i]);
      others.gradients.push_back(lists.gradients[i]);
      others.states[0].push_back(lists.states[exp_avg_][i]);
      others.states[1].push_back(lists.states[exp_avg_sq_][i]);
      others.states[2].push_back(lists.states[step_][i]);
    }
    if (!others.parameters.empty()) update_others(others, lr);
  }

  void update_others(const Lists& others, double lr) const {
    const auto& adamw = config_.adamw;
    at::_foreach_add_(others.states[2], 1);
    at::_fused_adamw_(others.parameters, others.gradients, others.states[0], others.states[1],
                      /*max_exp_avg_sqs=*/{}, others.states[2],
                      adamw.lr ? lr / config_.lr * *adamw.lr : lr, adamw.betas[0], adamw.betas[1],
                      adamw.weight_decay, adamw.eps, /*amsgrad=*/false, /*maximize=*/false,
                      /*grad_scale=*/{}, /*found_inf=*/{});
  }

  void update_matrix(at::Tensor parameter, const at::Tensor& gradient, const at::Tensor& momentum,
                     double lr) const {
    momentum.lerp_(gradient, 1 - config_.momentum);
    if (lr == 0) return;  // the iterations would take long for nothing, e.g. in a plan
    const auto direction =
        orthogonal(config_.nesterov ? gradient.lerp(momentum, config_.momentum) : momentum);
    const auto rows = static_cast<double>(parameter.size(0));
    const auto columns = static_cast<double>(parameter.size(1));
    const auto ratio = config_.adjust_lr == AdjustedLr::Original
                           ? std::sqrt(std::max(1.0, rows / columns))
                           : 0.2 * std::sqrt(std::max(rows, columns));
    parameter.mul_(1 - lr * config_.weight_decay);
    parameter.add_(direction, -(lr * ratio));
  }

  // Newton-Schulz iterations: singular values become about 1.
  at::Tensor orthogonal(const at::Tensor& matrix) const {
    const auto& c = config_.coefficients;
    const bool is_tall = matrix.size(0) > matrix.size(1);
    auto result = matrix.to(at::kBFloat16);
    if (is_tall) result = result.t();
    result.div_(result.norm().clamp_min(config_.eps));
    for (int64_t i = 0; i < config_.iterations; ++i) {
      const auto gram = at::matmul(result, result.t());
      const auto polynomial = at::addmm(gram, gram, gram, c[1], c[2]);
      result = at::addmm(result, polynomial, result, c[0]);
    }
    return is_tall ? result.t() : result;
  }

  Config config_;
  size_t momentum_ = 0, exp_avg_ = 0, exp_avg_sq_ = 0, step_ = 0;
};

REGISTER_OPTIMIZER("muon", Muon,
                   "orthogonal updates of matrices (as torch.optim.Muon); adamw for the others");

}  // namespace
}  // namespace lockstep::trainer
