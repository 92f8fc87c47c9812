#include "trainer/generation/beam_search.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "models/sampling.h"

namespace lockstep::trainer {
namespace {

struct Beam {
  std::vector<int64_t> tokens;
  float score = 0;  // log-probability; of a finished one, with the length penalty
};

class BeamSearch {
 public:
  BeamSearch(const std::vector<int64_t>& prompt, int64_t max_tokens,
             const std::vector<int64_t>& end_tokens, const BeamOptions& options,
             const IsStopped& is_stopped)
      : prompt_(prompt),
        max_tokens_(max_tokens),
        ends_(end_tokens),
        options_(options),
        is_stopped_(is_stopped) {}

  const std::vector<Beam>& running() const { return running_; }

  // Best first.
  std::vector<std::vector<int64_t>> texts() const {
    std::vector<std::vector<int64_t>> texts;
    for (const auto& beam : finished_) texts.push_back(beam.tokens);
    return texts;
  }

  // `logits` [B, V]: of the token that follows each running text. Returns the rows of the texts
  // that remain in the search, each continued by a token; empty: the search is complete.
  std::vector<int64_t> take(const at::Tensor& logits) {
    const auto vocabulary = logits.size(1);
    const auto [values, places] = candidates(logits);
    const auto length = std::ssize(running_.front().tokens) + 1;
    std::vector<Beam> next;
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < values.numel(); ++i) {
      // A text that ends counts only among the best; the others are there to replace those.
      const bool may_finish = i < options_.count, may_continue = std::ssize(next) < options_.count;
      if (!may_finish && !may_continue) break;
      const auto place = places.data_ptr<int64_t>()[i];
      const auto row = place / vocabulary, token = place % vocabulary;
      Beam beam = {running_[static_cast<size_t>(row)].tokens, values.data_ptr<float>()[i]};
      beam.tokens.push_back(token);
      const bool is_finished =
          length == max_tokens_ || is_end(token) || (is_stopped_ && is_stopped_(beam.tokens));
      if (is_finished ? !may_finish : !may_continue) continue;
      if (is_finished) {
        finish(std::move(beam));
      } else {
        next.push_back(std::move(beam));
        rows.push_back(row);
      }
    }
    running_ = std::move(next);
    if (!running_.empty() && !can_improve()) rows.clear();
    return rows;
  }

 private:
  // The log-probabilities, in descending order, and places (row * V + token) of the most likely
  // continuations: as many as leave enough of them if all others end.
  std::tuple<at::Tensor, at::Tensor> candidates(const at::Tensor& logits) const {
    const auto log_probabilities = at::log_softmax(logits, 1);
    std::vector<at::Tensor> rows;
    for (const auto& beam : running_)
      rows.push_back(penalized_row(log_probabilities[std::ssize(rows)], beam) + beam.score);
    const auto all = at::cat(rows);
    const auto ends = static_cast<int64_t>(ends_.size());
    return all.topk(std::min(std::max<int64_t>(2, 1 + ends) * options_.count, all.numel()));
  }

  at::Tensor penalized_row(const at::Tensor& log_probabilities, const Beam& beam) const {
    if (options_.repetition_penalty == 1) return log_probabilities;
    auto tokens = prompt_;
    tokens.insert(tokens.end(), beam.tokens.begin(), beam.tokens.end());
    return models::penalize_repetition(log_probabilities, tokens, options_.repetition_penalty);
  }

  bool is_end(int64_t token) const { return std::ranges::find(ends_, token) != ends_.end(); }

  float penalized(const Beam& beam) const {
    const auto length = static_cast<double>(beam.tokens.size());
    return static_cast<float>(beam.score / std::pow(length, options_.length_penalty));
  }

  void finish(Beam beam) {
    beam.score = penalized(beam);
    const auto place =
        std::ranges::find_if(finished_, [&](const Beam& one) { return one.score < beam.score; });
    finished_.insert(place, std::move(beam));
    if (std::ssize(finished_) > options_.count) finished_.pop_back();
  }

  bool can_improve() const {
    if (std::ssize(finished_) < options_.count) return true;
    return !options_.ends_early && penalized(running_.front()) > finished_.back().score;
  }

  const std::vector<int64_t>& prompt_;
  int64_t max_tokens_;
  const std::vector<int64_t>& ends_;
  const BeamOptions& options_;
  const IsStopped& is_stopped_;
  std::vector<Beam> running_ = {Beam()}, finished_;  // best first
};

}  // namespace

std::vector<std::vector<int64_t>> best_texts(const std::vector<int64_t>& prompt, int64_t max_tokens,
                                             const std::vector<int64_t>& end_tokens,
                                             const BeamOptions& options,
                                             const NextLogits& next_logits,
                                             const IsStopped& is_stopped) {
  const auto length = static_cast<int64_t>(prompt.size());
  models::KeyValueCache cache(1, std::max(length, length + max_tokens - 1));
  BeamSearch search(prompt, max_tokens, end_tokens, options, is_stopped);
  auto tokens = at::tensor(prompt, at::kLong).unsqueeze(0);
  std::vector<int64_t> counts = {length};
  while (true) {
    const auto rows = search.take(next_logits(tokens, counts, cache));
    if (rows.empty()) return search.texts();
    cache.keep(rows);
    std::vector<int64_t> last;
    for (const auto& beam : search.running()) last.push_back(beam.tokens.back());
    tokens = at::tensor(last, at::kLong).unsqueeze(1);
    counts.assign(rows.size(), 1);
  }
}

}  // namespace lockstep::trainer
