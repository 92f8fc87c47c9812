// The fields of launch/protocol/group_messages.h and job_state.h in the messages between launchers.
// Only files of launch/ include this.
#pragma once

#include <string>

#include "launch/protocol/group_messages.h"
#include "lockstep/error.h"

namespace lockstep::launch {

inline constexpr int kMaxRanks = 100'000'000;  // and of whatever else a message counts

template <class V>
void fields(V& v, GroupEvent& event) {
  auto kind = static_cast<int>(event.kind);
  v("kind", kind, 0, static_cast<int>(GroupEvent::Kind::Started));
  event.kind = static_cast<GroupEvent::Kind>(kind);
  v("worker", event.worker, 0, kMaxRanks);
  v.given("how", event.how);
  v.given("num_starts", event.num_starts, 0, kMaxRanks);
  auto request = encode(event.request);
  v("request", request);
  if (V::kWrites) return;
  const auto decoded = decode_group_request(request);
  if (!decoded) throw environment_error("invalid message: 'request' is invalid");
  event.request = *decoded;
}

template <class V>
void fields(V& v, WorkerAnswer& m) {
  v("worker", m.worker, 0, kMaxRanks);
  auto answer = V::kWrites ? encode(m.answer) : std::string();
  v("answer", answer);
  if (!V::kWrites) m.answer = decode_group_answer(answer);
}

template <class V>
void fields(V& v, JobNode& node) {
  v("num_ranks", node.num_ranks, 1, 1 << 20);
  v("num_spares", node.num_spares, 0, 1 << 20);
  v("address", node.address);
  v("port", node.port, 0, 65535);
  v("label", node.label);
  v("present", node.is_present);
  v.given("given_rank", node.given_rank, 0, kMaxRanks);
  v("since", node.since, 0, kMaxGroup);
}

template <class V>
void fields(V& v, JobLoss& loss) {
  v("rank", loss.rank, 0, kMaxRanks);
  v("how", loss.how);
  v("has_left", loss.has_left);
}

template <class V>
void fields(V& v, JobState& job) {
  v("key", job.key);
  v("version", job.version, 0, kMaxGroup);
  v("num_claims", job.num_claims, 0, kMaxGroup);
  v("coordinator", job.coordinator, 0, kMaxRanks);
  v("num_restarts", job.num_restarts, 0, kMaxRanks);
  v("run_id", job.run_id);
  v.list("nodes", job.nodes);
  v("group", job.group, 0, kMaxGroup);
  v("group_step", job.group_step, 0, kMaxGroup);
  v("world_size", job.world_size, 1, kMaxRanks);
  v("ranks", job.ranks, -1, kMaxRanks);
  v("flags", job.flags, 0, 255);
  v("starts", job.starts, 0, kMaxRanks);
  v.list("losses", job.losses);
  if (!V::kWrites && !job.is_consistent())
    throw environment_error("invalid message: the state of the job is inconsistent");
}

template <class V>
void fields(V& v, GroupState& state) {
  v.list("answers", state.answers);
  v("world_size", state.world_size, 1, kMaxRanks);
  v("ranks", state.ranks, -1, kMaxRanks);
  v("replaced", state.replaced, 0, kMaxRanks);
  v.given("starts", state.starts, 0, kMaxRanks);
  v.given("job", state.job);
}

}  // namespace lockstep::launch
