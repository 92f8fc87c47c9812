#include "trainer/prepared/model_faults.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <charconv>
#include <string_view>
#include <vector>

#include "core/config/size_text.h"
#include "core/printable.h"

namespace lockstep::trainer {
namespace {

constexpr size_t kMaxFaultLength = 600;

std::string layout_text(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ", "));
}

std::string fields_text(const Batch& batch) {
  std::vector<std::string> fields;
  for (const auto& [name, tensor] : batch.fields)
    fields.push_back(fmt::format("{} {}", name, layout_text(tensor)));
  return fmt::format("{}", fmt::join(fields, ", "));
}

// Whether the reason is not the part that threw it.
bool is_of_others(const std::exception& error, const std::string& text) {
  return dynamic_cast<const Error*>(&error) || kind_of(error) == ErrorKind::Environment ||
         dynamic_cast<const c10::DistError*>(&error) || text.find("CUDA error") != text.npos ||
         text.find("CUBLAS_") != text.npos || text.find("CUDNN_") != text.npos;
}

// The number after `words`, e.g. of bytes; 0: there is none.
uint64_t number_after(const std::string& text, std::string_view words) {
  const auto at = text.find(words);
  uint64_t number = 0;
  if (at != std::string::npos)
    std::from_chars(text.data() + at + words.size(), text.data() + text.size(), number);
  return number;
}

uint64_t memory_of_host() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(::sysconf(_SC_PAGE_SIZE));
}

std::string text_of(const std::exception& error) {
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
  return of_torch ? of_torch->what_without_backtrace() : error.what();
}

// What the author of the model can do; empty: unknown.
std::string_view hint_of(const std::string& text) {
  if (text.find("Inference tensors cannot be saved") != text.npos)
    return "; a tensor that forward() keeps was made in an evaluation: make it under "
           "c10::InferenceMode(false)";
  if (text.find("dtype") != text.npos || text.find("scalar type") != text.npos)
    return "; the dataset or the model must convert one of them";
  return "";
}

bool is_count(const at::Tensor& targets) {
  return targets.defined() && targets.dim() == 0 &&
         c10::isIntegralType(targets.scalar_type(), /*includeBool=*/false);
}

// Describes what is wrong with `loss`; empty: nothing.
std::string fault_of(const at::Tensor& loss, const ExpectedOutputs& expected) {
  if (!loss.defined()) return "no loss (are the targets, such as 'label', in the batch?)";
  if (loss.dim() != 0)
    return fmt::format("a loss of shape [{}]; return its mean", fmt::join(loss.sizes(), ", "));
  if (!loss.is_floating_point())
    return fmt::format("a loss of type {}", c10::toString(loss.scalar_type()));
  if (loss.device().type() != expected.device.type())
    return fmt::format("a loss on device {}", loss.device().str());
  if (expected.has_gradient && !loss.requires_grad())
    return "a loss that is detached from the parameters";
  return "";
}

std::string fault_of(const Outputs& outputs, int64_t num_samples, const ExpectedOutputs& expected) {
  if (const auto fault = fault_of(outputs.loss, expected); !fault.empty()) return fault;
  if (outputs.count != num_samples) return fmt::format("count {}", outputs.count);
  if (outputs.targets.defined() != expected.has_targets)
    return expected.has_targets ? "no targets, but target_name() is set"
                                : "targets, but target_name() is empty";
  if (expected.has_targets && !is_count(outputs.targets))
    return fmt::format("targets as {}; return their number, one integer",
                       layout_text(outputs.targets));
  for (const auto& [name, sum] : outputs.sums) {
    if (name.empty() || name == "loss") return fmt::format("sums['{}']; choose another name", name);
    if (!sum.defined() || sum.numel() != 1)
      return fmt::format("sums['{}'] that is not one number", printable(name));
  }
  return "";
}

}  // namespace

void rethrow_fault(std::string_view model, const Batch* batch, const std::exception& error) {
  const auto text = text_of(error);
  if (is_of_others(error, text)) throw;
  if (const auto bytes = number_after(text, "you tried to allocate "))
    throw config_error(
        fmt::format("{} needs {} for one tensor, this host has {} of memory: use a smaller model "
                    "or batch",
                    model, size_text(bytes), size_text(memory_of_host())));
  if (const auto end = text.find(" does not have a deterministic implementation"); end != text.npos)
    throw config_error(fmt::format(
        "{} uses {}, which has no deterministic form on this device: set train.deterministic=false",
        model, printable(text.substr(0, end))));
  const auto line = printable(text.substr(0, text.find('\n')), kMaxFaultLength);
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error))
    throw config_error(fmt::format(
        "{} does not fit the memory of the GPU{} ({})", model,
        batch ? fmt::format(" for a batch of {}: use a smaller batch, train.recompute: blocks or "
                            "train.precision: bf16",
                            fields_text(*batch))
              : ": use a smaller model or batch, or more GPUs and distributed.shard: full",
        line));
  if (!batch) throw config_error(fmt::format("{} fails: {}", model, line));
  throw config_error(fmt::format("{} fails for a batch of {}: {}{}", model, fields_text(*batch),
                                 line, hint_of(text)));
}

void verify_outputs(std::string_view model, const Batch& batch, const Outputs& outputs,
                    const ExpectedOutputs& expected) {
  const auto fault = fault_of(outputs, batch.size(), expected);
  if (fault.empty()) return;
  throw config_error(fmt::format(
      "{}: forward() returned {}, for a batch of {}; it must return as loss the mean over the "
      "batch, a differentiable floating-point scalar on {}, and as count the number of samples "
      "({})",
      model, fault, fields_text(batch), expected.device.str(), batch.size()));
}

at::Tensor count_targets(std::string_view title, const Model& model, const Batch& batch) {
  auto counted = in_model(title, &batch, [&] { return model.count_targets(batch); });
  if (is_count(counted)) return counted;
  throw config_error(fmt::format(
      "{}: count_targets() returned {} for a batch of {}; it must return the number of {}, one "
      "integer",
      title, counted.defined() ? layout_text(counted) : "an undefined tensor", fields_text(batch),
      model.target_name()));
}

void verify_has_values(std::string_view model, const Model& module) {
  const auto verify = [&](const auto& tensors, const char* what) {
    for (const auto& item : tensors)
      if (item.value().is_meta())
        throw config_error(
            fmt::format("{}: {} '{}' is on the meta device and has no values: create it on the CPU",
                        model, what, item.key()));
  };
  verify(module.named_parameters(), "parameter");
  verify(module.named_buffers(), "buffer");
}

}  // namespace lockstep::trainer
