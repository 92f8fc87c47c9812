#include "distributed/objects.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstring>

#include "distributed/backends/process_groups.h"
#include "distributed/collectives.h"
#include "distributed/fence.h"
#include "lockstep/error.h"

namespace lockstep::distributed {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 30;

at::Tensor to_bytes(const nlohmann::json& value) {
  const auto packed = nlohmann::json::to_msgpack(value);
  check(static_cast<int64_t>(packed.size()) <= kMaxBytes,
        "object exceeds the limit of 1 GiB per rank");
  auto bytes = at::empty({static_cast<int64_t>(packed.size())}, at::kByte);
  std::memcpy(bytes.data_ptr(), packed.data(), packed.size());
  return bytes;
}

nlohmann::json from_bytes(const at::Tensor& bytes, int64_t size) {
  const auto* begin = bytes.const_data_ptr<uint8_t>();
  return nlohmann::json::from_msgpack(begin, begin + size);
}

at::Tensor padded(const at::Tensor& bytes, int64_t size) {
  auto result = at::zeros({size}, at::kByte);
  result.narrow(0, 0, bytes.size(0)).copy_(bytes);
  return result;
}

at::Tensor size_of(const at::Tensor& bytes) { return at::scalar_tensor(bytes.size(0), at::kLong); }

}  // namespace

std::vector<nlohmann::json> all_gather_object(World& world, const nlohmann::json& value,
                                              const std::string& name) {
  if (!world.is_distributed()) return {value};
  const auto bytes = to_bytes(value);
  const auto sizes = all_gather(world, size_of(bytes), name + " sizes");
  const auto gathered = all_gather(world, padded(bytes, sizes.max().item<int64_t>()), name);
  std::vector<nlohmann::json> values;
  for (int64_t rank = 0; rank < world.world_size(); ++rank)
    values.push_back(from_bytes(gathered[rank], sizes[rank].item<int64_t>()));
  return values;
}

std::vector<nlohmann::json> gather_object(World& world, const nlohmann::json& value, int root,
                                          const std::string& name) {
  if (!world.is_distributed()) return {value};
  const auto bytes = to_bytes(value);
  const auto sizes = all_gather(world, size_of(bytes), name + " sizes");
  const auto size = sizes.max().item<int64_t>();
  std::vector<at::Tensor> inputs = {padded(bytes, size)};
  std::vector<std::vector<at::Tensor>> outputs;
  if (world.rank() == root) {
    outputs.emplace_back();
    for (int rank = 0; rank < world.world_size(); ++rank)
      outputs[0].push_back(at::empty({size}, at::kByte));
  }
  c10d::GatherOptions options;
  options.rootRank = root;
  fenced(world, fmt::format("gather_object '{}'", name),
         [&] { world.groups().control->gather(outputs, inputs, options)->wait(); });
  std::vector<nlohmann::json> values;
  if (world.rank() != root) return values;
  for (int64_t rank = 0; rank < world.world_size(); ++rank)
    values.push_back(
        from_bytes(outputs[0][static_cast<size_t>(rank)], sizes[rank].item<int64_t>()));
  return values;
}

nlohmann::json broadcast_object(World& world, const nlohmann::json& value, int root,
                                const std::string& name) {
  if (!world.is_distributed()) return value;
  auto bytes = world.rank() == root ? to_bytes(value) : at::Tensor();
  auto size = bytes.defined() ? size_of(bytes) : at::zeros({}, at::kLong);
  broadcast(world, size, root, name + " size");
  if (!bytes.defined()) bytes = at::empty({size.item<int64_t>()}, at::kByte);
  broadcast(world, bytes, root, name);
  return from_bytes(bytes, bytes.size(0));
}

nlohmann::json act_on_main(World& world, const std::string& name,
                           const std::function<nlohmann::json()>& act) {
  nlohmann::json result;
  if (world.rank() == 0) {
    try {
      result = {{"value", act()}};
    } catch (const std::exception& error) {
      result = {{"error", message_of(error)}, {"kind", kind_of(error)}};
    }
  }
  result = broadcast_object(world, result, 0, name);
  if (!result.contains("error")) return result["value"];
  const auto kind = result["kind"].get<ErrorKind>();
  const auto message = result["error"].get<std::string>();
  if (world.rank() == 0) throw Error(kind, message);
  throw PeerError(message, kind);
}

}  // namespace lockstep::distributed
