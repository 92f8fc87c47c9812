#include "models/compiled/pass.h"

#include <ATen/Context.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "lockstep/error.h"
#include "models/graph_record.h"
#include "models/replayed_random.h"

namespace lockstep::models {
namespace {

at::Generator generator_of(const at::Tensor& input) {
  return at::globalContext().defaultGenerator(input.device());
}

void add_new(std::vector<Block*>& blocks, Block* block) {
  if (block && !std::ranges::count(blocks, block)) blocks.push_back(block);
}

}  // namespace

CompiledPass::CompiledPass(Graphs graphs, std::vector<SegmentSpec> segments,
                           std::vector<Block*> blocks, size_t num_inputs)
    : graphs_(std::move(graphs)),
      segments_(std::move(segments)),
      blocks_(segments_.size()),
      first_backward_(static_cast<size_t>(
          std::ranges::find_if(segments_, [](const auto& spec) { return spec.gradients > 0; }) -
          segments_.begin())) {
  check(graphs_.size() == segments_.size(), "number of graphs does not match number of segments");
  used_by_.resize(num_inputs);
  for (size_t i = 0; i < segments_.size(); ++i) {
    for (const auto number : segments_[i].takes) {
      const auto value = static_cast<size_t>(number);
      used_by_.at(value).push_back(i);
      if (value < blocks.size()) add_new(blocks_[i], blocks[value]);
    }
    first_kept_.push_back(used_by_.size());
    used_by_.resize(used_by_.size() + static_cast<size_t>(segments_[i].keeps));
  }
}

// Whether the values of a segment that only the backward pass needs are computed again.
bool CompiledPass::recomputes(size_t segment) const {
  const auto& blocks = blocks_[segment];
  return segment < first_backward_ && first_backward_ < size() && !blocks.empty() &&
         std::ranges::all_of(blocks, [](const Block* block) { return block->recomputes(); });
}

CompiledPass::Run::Run(const CompiledPass& pass, std::vector<at::Tensor> inputs, int64_t count)
    : pass_(pass),
      count_(static_cast<double>(count)),
      values_(std::move(inputs)),
      is_dropped_(pass.used_by_.size()),
      again_(pass.size()),
      random_(pass.size()) {
  check(values_.size() == (pass.first_kept_.empty() ? 0 : pass.first_kept_.front()),
        "number of inputs does not match the manifest");
  values_.resize(pass.used_by_.size());
  for (const auto& segments : pass.used_by_)
    last_use_.push_back(segments.empty() ? 0 : segments.back());
  for (size_t i = 0; i < pass.size(); ++i)
    if (pass.recomputes(i)) plan_again(i);
}

void CompiledPass::Run::plan_again(size_t segment) {
  const auto& spec = pass_.segments_[segment];
  auto first = pass_.size();
  for (size_t i = 0; i < static_cast<size_t>(spec.keeps); ++i) {
    const auto value = pass_.first_kept_[segment] + i;
    const auto& users = pass_.used_by_[value];
    if (users.empty() || users.front() <= pass_.first_backward_) continue;
    is_dropped_[value] = true;
    first = std::min(first, users.front());
  }
  if (first == pass_.size()) return;
  again_[first].push_back(segment);
  for (const auto value : spec.takes) {
    auto& last = last_use_[static_cast<size_t>(value)];
    last = std::max(last, first);
  }
}

std::vector<at::Tensor> CompiledPass::Run::run_to(size_t segment) {
  while (next_ < segment) run_segment(next_++);
  return run_segment(next_++);
}

std::vector<at::Tensor> CompiledPass::Run::inputs_of(size_t segment) const {
  std::vector<at::Tensor> inputs;
  for (const auto value : pass_.segments_[segment].takes)
    inputs.push_back(values_[static_cast<size_t>(value)]);
  return inputs;
}

// Tells the observer of the blocks whose weights this segment and the next one use.
void CompiledPass::Run::hold(size_t segment) const {
  const auto used_in = [&](size_t each) {
    std::vector<Block*> blocks;
    if (each >= pass_.size()) return blocks;
    for (auto* const block : pass_.blocks_[each]) add_new(blocks, block);
    for (const auto other : again_[each])
      for (auto* const block : pass_.blocks_[other]) add_new(blocks, block);
    return blocks;
  };
  for (const auto& blocks : pass_.blocks_)
    if (!blocks.empty()) {
      if (auto* const observer = blocks.front()->observer())
        observer->hold(used_in(segment), used_in(segment + 1));
      return;
    }
}

// Returns the outputs of the segment, without the values for later segments.
std::vector<at::Tensor> CompiledPass::Run::run_segment(size_t segment) {
  check(segment < pass_.size(), "a compiled pass has no more segments");
  hold(segment);
  for (const auto earlier : again_[segment]) run_again(earlier);
  const auto inputs = inputs_of(segment);
  if (pass_.recomputes(segment)) random_[segment] = generator_of(inputs.front()).get_state();
  for (size_t i = 0; i < std::min(values_.size(), pass_.first_kept_[segment]); ++i)
    if (last_use_[i] <= segment) values_[i].reset();
  auto outputs = run_graph(segment, inputs);
  const auto keeps = static_cast<size_t>(pass_.segments_[segment].keeps);
  check(outputs.size() >= keeps, "number of compiled outputs does not match the manifest");
  const auto first = outputs.size() - keeps;
  for (size_t i = 0; i < keeps; ++i) {
    const auto value = pass_.first_kept_[segment] + i;
    if (!is_dropped_[value]) values_[value] = std::move(outputs[first + i]);
  }
  outputs.resize(first);
  return outputs;
}

std::vector<at::Tensor> CompiledPass::Run::run_graph(size_t segment,
                                                     const std::vector<at::Tensor>& inputs) const {
  const auto& flops = pass_.segments_[segment].flops;
  std::vector<c10::IValue> number;  // outlives the record
  at::RecordFunction record(at::RecordScope::FUNCTION);
  if (!flops.empty() && record.isActive()) {
    number.emplace_back(
        std::accumulate(flops.rbegin(), flops.rend(), 0.0,
                        [&](double sum, double each) { return sum * count_ + each; }));
    record.before(kGraphRecord, c10::ArrayRef<const c10::IValue>(number.data(), number.size()));
  }
  return pass_.graphs_[segment]->run(inputs);
}

void CompiledPass::Run::run_again(size_t segment) {
  const auto inputs = inputs_of(segment);
  const ReplayedRandom replayed(generator_of(inputs.front()), random_[segment]);
  auto outputs = run_graph(segment, inputs);
  const auto first = outputs.size() - static_cast<size_t>(pass_.segments_[segment].keeps);
  for (size_t i = first; i < outputs.size(); ++i) {
    const auto value = pass_.first_kept_[segment] + i - first;
    if (is_dropped_[value]) values_[value] = std::move(outputs[i]);
  }
}

}  // namespace lockstep::models
