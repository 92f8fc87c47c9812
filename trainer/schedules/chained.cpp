// Schedules one after the other, each with its own count of steps, like
// torch.optim.lr_scheduler.SequentialLR.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/error.h"
#include "lockstep/part.h"
#include "lockstep/schedule.h"

namespace lockstep::trainer {
namespace {

constexpr const char* kChained = "chained";

// A list of schedules with the key `steps`.
class ScheduleList final : public AnyPart {
 public:
  struct Item {
    Part<Schedule, const ScheduleSpan&> schedule;
    std::optional<int64_t> steps;  // nullopt: to the end of the run
  };

  void read(const ConfigNode& node, const std::string& path) override {
    if (node.kind != ConfigNode::Kind::List || node.items.empty())
      throw bad_value(node, path, "a list such as [{name: constant, steps: 1000}, {name: cosine}]");
    items_.clear();
    for (size_t i = 0; i < node.items.size(); ++i)
      read_item(node.items[i], fmt::format("{}[{}]", path, i), i + 1 == node.items.size());
  }

  Json dump() const override {
    auto list = Json::array();
    for (const auto& item : items_) {
      auto json = item.schedule.dump();
      json["steps"] = ConfigValue<std::optional<int64_t>>::dump(item.steps);
      list.push_back(std::move(json));
    }
    return list;
  }

  Json schema() const override {
    auto parts = Json::array();
    for (const auto& name : schedule_registry().names()) {
      if (name == kChained) continue;
      auto part = schedule_registry().find(name)->make()->schema();
      part["properties"]["name"] = {{"const", name}};
      part["properties"]["steps"] = ConfigValue<std::optional<int64_t>>::schema();
      part["required"].push_back("name");
      parts.push_back(std::move(part));
    }
    return {{"type", "array"}, {"items", {{"anyOf", parts}}}, {"minItems", 1}};
  }

  const std::vector<Item>& items() const { return items_; }

 private:
  void read_item(const ConfigNode& node, const std::string& path, bool is_last) {
    Item item{Part<Schedule, const ScheduleSpan&>(schedule_registry()), std::nullopt};
    auto own = node;
    std::erase_if(own.members, [](const auto& member) { return member.key == "steps"; });
    if (const auto* const name = node.kind == ConfigNode::Kind::Map ? node.find("name") : nullptr;
        name && name->scalar == kChained)
      throw config_error(fmt::format("{}: {}.name: a chained schedule cannot contain another",
                                     name->origin, path));
    item.schedule.read(own, path);
    if (const auto* const steps = node.find("steps")) {
      item.steps = ConfigValue<std::optional<int64_t>>::read(*steps, path + ".steps");
      if (item.steps && *item.steps < 1)
        throw bad_value(*steps, path + ".steps", "a number of at least 1");
    }
    if (!item.steps && !is_last)
      throw config_error(
          fmt::format("{}: {}.steps: is required, except for the last", node.origin, path));
    items_.push_back(std::move(item));
  }

  std::vector<Item> items_;
};

struct ChainedConfig {
  ScheduleList schedules;
};

template <class V>
void fields(V& v, ChainedConfig& c) {
  v("schedules", c.schedules,
    "schedules, each with `steps`, its length (empty: to the end of the run)", required());
}

class Chained final : public Schedule {
 public:
  using Config = ChainedConfig;

  Chained(const Config& config, const ScheduleSpan& span) {
    int64_t begin = 0;
    const auto& items = config.schedules.items();
    for (size_t i = 0; i < items.size(); ++i) {
      const auto& item = items[i];
      const auto rest = std::max<int64_t>(span.total_steps - begin, 0);
      if (rest == 0 && span.total_steps > 0)
        throw config_error(
            fmt::format("schedule.schedules: those before '{}' have {} steps, all of the run's {}",
                        item.schedule.name(), begin, span.total_steps));
      const auto steps = item.steps.value_or(rest);
      stages_.push_back({begin, build_stage(item, i,
                                            {.total_steps = steps,
                                             .steps_per_epoch = span.steps_per_epoch,
                                             .epoch_shift = i == 0 ? span.epoch_shift : 0,
                                             .is_followed = i + 1 < items.size()})});
      begin += steps;
    }
  }

  double factor(int64_t step) const override {
    const auto next = std::ranges::upper_bound(stages_, step, {}, &Stage::begin);
    const auto& stage = *(next - 1);
    return stage.schedule->factor(step - stage.begin);
  }

 private:
  // Its errors name the stage.
  static std::shared_ptr<Schedule> build_stage(const ScheduleList::Item& item, size_t number,
                                               const ScheduleSpan& span) {
    try {
      return item.schedule.build(span);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("schedule.schedules[{}] ({} steps): {}", number,
                                            span.total_steps, error.what()));
    }
  }

  struct Stage {
    int64_t begin;  // its first step
    std::shared_ptr<Schedule> schedule;
  };
  std::vector<Stage> stages_;
};

REGISTER_SCHEDULE(kChained, Chained, "schedules one after the other (as torch's SequentialLR)");

}  // namespace
}  // namespace lockstep::trainer
