// Workers of a job as the tests of Regrouping see them.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/rendezvous/regrouping.h"

namespace lockstep::launch {

using Nodes = std::vector<Regrouping::Node>;

// Workers without processes.
class Workers {
 public:
  explicit Workers(int num_ranks, int num_spares = 0) : Workers(Nodes{{num_ranks, num_spares}}) {}
  explicit Workers(Nodes nodes, std::chrono::milliseconds patience = {})
      : regrouping_(std::move(nodes), patience) {}

  void ask(int worker, int64_t step, GroupRequest::Kind kind = GroupRequest::Kind::Broken,
           double slowness = 0) {
    regrouping_.ask(worker, {kind, step, 1000 + worker, slowness});
    regrouping_.update();
  }

  // What the others wait for when it was let go.
  void disconnect(int worker) {
    regrouping_.disconnect(worker);
    regrouping_.update();
  }

  Regrouping* operator->() { return &regrouping_; }

  // nullopt: there is none yet.
  std::optional<GroupAnswer> answer_to(int worker) {
    for (auto& [member, answer] : regrouping_.take_answers()) answers_[member].push_back(answer);
    auto& queue = answers_[worker];
    if (queue.empty()) return std::nullopt;
    auto answer = std::move(queue.front());
    queue.pop_front();
    return answer;
  }

  // "rank/world size", or the kind of the answer.
  std::string place_of(int worker) {
    const auto answer = answer_to(worker);
    if (!answer) return "none";
    if (answer->kind == GroupAnswer::Kind::Join)
      return std::to_string(answer->rank) + "/" + std::to_string(answer->world_size);
    constexpr std::array words = {"join", "wait",    "end",     "refused",
                                  "lost", "overdue", "invited", "differs"};
    return words[static_cast<size_t>(answer->kind)];
  }

 private:
  Regrouping regrouping_;
  std::map<int, std::deque<GroupAnswer>> answers_;
};

}  // namespace lockstep::launch
