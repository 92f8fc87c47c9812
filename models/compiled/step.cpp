#include "models/compiled/step.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::models {
namespace {

// Removes and returns the first `count` values.
std::vector<at::Tensor> take_front(std::vector<at::Tensor>& values, size_t count) {
  const auto end = values.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<at::Tensor> taken(std::make_move_iterator(values.begin()),
                                std::make_move_iterator(end));
  values.erase(values.begin(), end);
  return taken;
}

}  // namespace

CompiledStep::CompiledStep(std::vector<std::unique_ptr<CompiledGraph>> graphs,
                           const PackageManifest& manifest)
    : graphs_(std::move(graphs)),
      segments_(manifest.segments),
      num_scalars_(1 + manifest.sums.size() + (manifest.targets.empty() ? 0 : 1)),
      num_changed_(
          static_cast<size_t>(std::count_if(manifest.buffers.begin(), manifest.buffers.end(),
                                            [](const TensorSpec& spec) { return spec.marked; }))) {
  check(graphs_.size() == segments_.size(), "number of graphs does not match number of segments");
  for (size_t i = 0; i < segments_.size(); ++i)
    for (const auto number : segments_[i].takes) {
      const auto at = static_cast<size_t>(number);
      last_use_.resize(std::max(last_use_.size(), at + 1));
      last_use_[at] = i;
    }
}

// Returns the outputs of the segment; values for later segments are appended to `values`.
std::vector<at::Tensor> CompiledStep::run_segment(size_t number,
                                                  std::vector<at::Tensor>& values) const {
  const auto& segment = segments_[number];
  std::vector<at::Tensor> inputs;
  inputs.reserve(segment.takes.size());
  for (const auto value : segment.takes) inputs.push_back(values[static_cast<size_t>(value)]);
  if (segments_.size() > 1)
    for (size_t i = 0; i < std::min(values.size(), last_use_.size()); ++i)
      if (last_use_[i] <= number) values[i].reset();
  auto outputs = graphs_[number]->run(inputs);
  const auto keeps = static_cast<size_t>(segment.keeps);
  const auto expected = static_cast<size_t>(segment.gradients) + keeps +
                        (number == 0 ? num_scalars_ + num_changed_ : 0);
  check(outputs.size() == expected, "number of compiled outputs does not match the manifest");
  const auto kept = outputs.end() - static_cast<std::ptrdiff_t>(keeps);
  values.insert(values.end(), std::make_move_iterator(kept),
                std::make_move_iterator(outputs.end()));
  outputs.erase(kept, outputs.end());
  return outputs;
}

CompiledResults CompiledStep::run(std::vector<at::Tensor> inputs) const {
  CompiledResults results;
  auto outputs = run_segment(0, inputs);
  results.scalars = take_front(outputs, num_scalars_);
  results.gradients = take_front(outputs, static_cast<size_t>(segments_[0].gradients));
  results.buffers = std::move(outputs);
  if (segments_.size() == 1) return results;
  const auto values = std::make_shared<std::vector<at::Tensor>>(std::move(inputs));
  for (size_t i = 1; i < segments_.size(); ++i)
    results.remaining_segments.emplace_back([this, values, i] { return run_segment(i, *values); });
  return results;
}

}  // namespace lockstep::models
