#include "trainer/checkpoint/checkpoint_saver.h"

#include <ATen/ATen.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <future>
#include <map>

#include "core/system/thread_priority.h"
#include "distributed/collectives.h"
#include "lockstep/error.h"
#include "lockstep/part.h"
#include "tests/distributed/run_ranks.h"
#include "tests/temporary_directory.h"

using namespace lockstep;
using namespace lockstep::trainer;
using namespace std::chrono_literals;

namespace {

// The state of a training on one rank.
struct Training {
  explicit Training(World& the_world) : world(the_world) {
    Part<Model> model_part(model_registry());
    model_part.read(
        parse_config("m: {name: mlp, inputs: 3, hidden: [], classes: 2}", "test").find("m")[0],
        "model");
    model = model_part.build();
    NamedTensors parameters;
    for (const auto& item : model->named_parameters())
      parameters.emplace_back(item.key(), item.value());
    Part<Optimizer, const NamedTensors&> part(optimizer_registry());
    part.read(parse_config("o: {name: adamw}", "test").find("o")[0], "optimizer");
    optimizer = std::make_unique<OptimizerShard>(
        parameters, nullptr, [&](const NamedTensors& tensors) { return part.build(tensors); });
    parallel = DataParallel::create(world, *model, {});
  }
  TrainingState at_step(int64_t step) {
    head.position.step = step;
    return {*model, *optimizer, *parallel, head};
  }
  at::Tensor first() const { return model->parameters().front().detach(); }

  World& world;
  Tracker tracker;
  std::shared_ptr<Model> model;
  std::unique_ptr<OptimizerShard> optimizer;
  std::unique_ptr<DataParallel> parallel;
  CheckpointHead head;
};

struct LoneWorld {
  std::unique_ptr<World> lone_world = World::connect({.device = DeviceChoice::Cpu});
};

// One rank.
struct LoneTraining : private LoneWorld, Training {
  LoneTraining() : Training(*lone_world) {}
};

std::map<std::string, at::Tensor> tensors_by_name(const NamedTensors& tensors) {
  return {tensors.begin(), tensors.end()};
}

}  // namespace

TEST_CASE("checkpoint saver: writes the state of its step while training continues") {
  for (const bool in_background : {true, false}) {
    const TemporaryDirectory directory;
    LoneTraining training;
    CheckpointSaver saver(
        training.world, training.tracker,
        {.checkpoints = directory / "c", .keep = {.last = 2}, .in_background = in_background});
    saver.prepare(training.at_step(0));
    for (int64_t step = 1; step <= 4; ++step) {
      training.first().fill_(static_cast<double>(step));
      saver.save(training.at_step(step), std::nullopt, false);
      training.first().fill_(-1);
      saver.poll({.none_is_busy = true});
    }
    saver.finish();
    CHECK(list_checkpoints(directory / "c") == std::vector<int64_t>{3, 4});
    for (const int64_t step : {3, 4}) {
      const auto read = read_checkpoint(directory / "c", step);
      CHECK(read.head.position.step == step);
      CHECK(at::equal(read.model.at(0).second, at::full_like(training.first(), step)));
      CHECK(read.optimizer.size() == training.optimizer->state().size());
      CHECK(read.rng.size() == 1);
    }
  }
}

TEST_CASE("checkpoint saver: an evaluation can be added to a checkpoint") {
  const TemporaryDirectory directory;
  LoneTraining training;
  CheckpointSaver saver(training.world, training.tracker,
                        {.checkpoints = directory / "c", .in_background = false});
  training.head.evaluation_is_due = true;
  training.head.position.samples = 7;
  saver.save(training.at_step(4), std::nullopt, true);
  CheckpointHead head{.position = training.head.position,
                      .early_stop = {"loss", "min", 0.25, 0},
                      .evaluation = {{"loss", 0.25}, {"accuracy", 0.5}}};
  add_evaluation(directory / "c", head);
  const auto read = read_checkpoint(directory / "c", 4);
  CHECK(read.head.evaluation == head.evaluation);
  CHECK(read.head.early_stop == head.early_stop);
  CHECK_FALSE(read.head.evaluation_is_due);
  CHECK(read.head.position == training.head.position);
  head.position.step = 5;
  CHECK_THROWS_WITH(add_evaluation(directory / "c", head), Catch::Contains("5/manifest.json"));
}

TEST_CASE("checkpoint saver: shares are committed as the main rank's state once no rank is busy") {
  const TemporaryDirectory directory;
  for (const bool in_background : {true, false}) {
    const auto seen = distributed::run_ranks(3, [&](World& world) {
      Training training(world);
      const auto own = at::full({4}, static_cast<double>(world.rank()));
      training.model->register_buffer("mean", own);
      CheckpointSaver saver(world, training.tracker,
                            {.checkpoints = directory / "c",
                             .keep = {.last = 2},
                             .in_background = in_background,
                             .all_write = true});
      saver.prepare(training.at_step(0));
      std::vector<std::vector<int64_t>> lists;
      for (int64_t step = 1; step <= 3; ++step) {
        training.first().fill_(static_cast<double>(step));
        saver.save(training.at_step(step), std::nullopt, false);
        training.first().fill_(-1);
        saver.poll({});
        distributed::barrier(world, "test");
        lists.push_back(list_checkpoints(directory / "c"));
      }
      saver.finish();
      return lists;
    });
    using Steps = std::vector<int64_t>;
    if (in_background)  // the save in progress is not listed yet
      CHECK(seen[1] == std::vector<Steps>{{}, {1}, {1, 2}});
    else
      CHECK(seen[1].back() == Steps{2, 3});
    CHECK(list_checkpoints(directory / "c") == Steps{2, 3});
    CHECK(std::filesystem::exists(directory / "c/3/model-00003-of-00003.safetensors"));
    const auto read = read_checkpoint(directory / "c", 3);
    const auto model = tensors_by_name(read.model);
    CHECK(at::equal(model.at("mean"), at::zeros({4})));
    CHECK(at::equal(model.at("layers.0.weight"), at::full({2, 3}, 3.0)));
    CHECK(read.rng.size() == 3);
    CHECK(read.head.world_size == 3);
  }
}

TEST_CASE("checkpoint saver: a failed background write is reported once, with its reason") {
  const TemporaryDirectory directory;
  std::ofstream(directory / "file") << "no directory";
  LoneTraining training;
  CheckpointSaver saver(training.world, training.tracker,
                        {.checkpoints = directory / "file" / "c"});
  saver.save(training.at_step(1), std::nullopt, false);
  CHECK_THROWS_WITH(saver.finish(), Catch::Contains("Not a directory"));
  CHECK_NOTHROW(saver.finish());
  saver.save(training.at_step(2), std::nullopt, false);
  CHECK_THROWS_WITH(saver.save(training.at_step(3), std::nullopt, false), Catch::Contains("file"));
}

TEST_CASE("checkpoint saver: a pending checkpoint is finished before its memory is freed") {
  const TemporaryDirectory directory;
  LoneTraining training;
  {
    CheckpointSaver saver(training.world, training.tracker, {.checkpoints = directory / "c"});
    saver.save(training.at_step(7), std::nullopt, false);
  }
  CHECK(list_checkpoints(directory / "c") == std::vector<int64_t>{7});
}

TEST_CASE("background work: may have a lower thread priority, and wait() honors its timeout") {
  BackgroundWork work("test");
  std::promise<void> may_end;
  int priority = 0;
  work.start([&] {
    lower_thread_priority();
    priority = ::getpriority(PRIO_PROCESS, 0);
    may_end.get_future().wait();
  });
  CHECK(work.is_busy());
  CHECK_THROWS_WITH(work.wait(1ms, "a test"), Catch::Contains("a test did not finish within"));
  may_end.set_value();
  work.wait(20s, "a test");
  CHECK_FALSE(work.is_busy());
  CHECK(priority == std::min(19, ::getpriority(PRIO_PROCESS, 0) + 10));
}

TEST_CASE("snapshot: copies have current values, in reused memory") {
  Snapshot snapshot;
  const auto whole = at::arange(12, at::kFloat).view({3, 4});
  const NamedTensors tensors = {{"transposed", whole.t()},
                                {"number", at::scalar_tensor(5, at::kLong)},
                                {"nothing", at::zeros({0, 2})}};
  const auto first = snapshot.copy(tensors);
  whole.zero_();
  CHECK(at::equal(first[0].second, at::arange(12, at::kFloat).view({3, 4}).t()));
  CHECK(first[0].second.is_contiguous());
  CHECK(first[1].second.item<int64_t>() == 5);
  CHECK(first[2].second.sizes() == at::IntArrayRef{0, 2});
  const auto second = snapshot.copy(tensors);
  CHECK(second[0].second.const_data_ptr() == first[0].second.const_data_ptr());
  CHECK(at::equal(second[0].second, at::zeros({4, 3})));
}
