// Records runs that a short training cannot produce, with the tracker.
//   lockstep_sample_runs RUNS gallery
//       images, histograms, tables, alerts, and HTML in all user-defined texts
//   lockstep_sample_runs RUNS charts METRICS STEPS
//       curves, a confusion matrix of 20 classes, and tables of scores that are not as expected
//   lockstep_sample_runs RUNS ranks RANKS STEPS
//       rank 1 takes 50 % longer than the others
//   lockstep_sample_runs RUNS many RUNS
//   lockstep_sample_runs RUNS sweep RUNS STEPS
//       runs that differ in learning rate, width and seed, with system metrics and constant metrics
//   lockstep_sample_runs RUNS curves RUNS STEPS
//       runs of two ranks with one metric, several configuration values and a tag
//   lockstep_sample_runs RUNS study RUNS
//       runs that differ in 20 hyperparameters, of which optimizer.lr and model.hidden matter and
//       depend on each other
//   lockstep_sample_runs RUNS odd
//       NaN epochs and losses, a bidirectional name, the output of a rank on another node, and the
//       reason of a requested stop
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <iostream>
#include <random>

#include "lockstep/error.h"
#include "lockstep/tracker.h"
#include "tracking/log/event_log_writer.h"
#include "tracking/log/unix_time.h"
#include "tracking/runs/run_directory.h"
#include "tracking/runs/run_tags.h"
#include "tracking/sinks/png.h"

using namespace lockstep;

namespace {

constexpr const char* kScript =
    "<img src=x onerror=\"window.pwned=1\"><script>window.pwned=1</script>";

RunInfo job_of(const std::string& id, const std::string& name, int rank, int world_size) {
  return {.id = id,
          .name = name,
          .job_id = id,
          .rank = rank,
          .world_size = world_size,
          .local_rank = rank,
          .host = "testhost",
          .created = tracking::unix_now()};
}

Tracker open_rank(const std::filesystem::path& runs, const RunInfo& process, const Json& config) {
  if (process.rank < 1) create_run_directory(runs / process.job_id, process, config);
  Json tracking = {{"ranks", process.world_size > 1 ? "all" : "main"}};
  if (process.group) tracking["group"] = *process.group;
  return open_tracker({.run_dir = runs / process.job_id,
                       .process = process,
                       .tracking = tracking.dump(),
                       .run_config = config});
}

std::string gradient(int size, int phase) {
  std::vector<uint8_t> pixels;
  for (int y = 0; y < size; ++y)
    for (int x = 0; x < size; ++x)
      pixels.push_back(static_cast<uint8_t>((x * 255 / size + y * phase) % 256));
  return tracking::encode_png(size, size, 1, pixels);
}

Histogram bell(const std::string& name, int64_t step) {
  Histogram histogram{.at = {name, step, 0, 0}};
  for (int i = 0; i <= 30; ++i) histogram.edges.push_back((i - 15) * 0.1);
  for (int i = 0; i < 30; ++i)
    histogram.counts.push_back(
        std::round(1000 * std::exp(-std::pow((i - 15 + static_cast<double>(step) / 20) / 5, 2))));
  return histogram;
}

Table confusion(int64_t step, int num_classes) {
  Table table{.at = {"eval/confusion", step, 0, 0}, .columns = {"actual", "predicted", "count"}};
  const auto name = [](int i) { return i != 3 ? std::to_string(i) : std::string(kScript); };
  for (int actual = 0; actual < num_classes; ++actual)
    for (int predicted = 0; predicted < num_classes; ++predicted)
      table.rows.push_back(
          {name(actual), name(predicted), actual == predicted ? 90 + actual : 3 + predicted});
  return table;
}

Table precision_recall(int64_t step) {
  Table table{.at = {"eval/precision_recall", step, 0, 0},
              .columns = {"class", "recall", "precision"}};
  for (const char* name : {"cat", kScript})
    for (int i = 0; i <= 50; ++i)
      table.rows.push_back(
          {name, i / 50.0, 1 - std::pow(i / 50.0, 3) * (*name == 'c' ? 0.6 : 0.3)});
  return table;
}

// The label and the score of each sample, with equal scores.
Table scores(int64_t step) {
  Table table{.at = {"eval/scores", step, 0, 0}, .columns = {"label", "score"}};
  for (int i = 0; i < 300; ++i) {
    const bool label = i % 3 == 0;
    table.rows.push_back({label, std::round((i * 37 % 101) * 0.6 + (label ? 40 : 0)) / 100});
  }
  return table;
}

Table class_scores(int64_t step) {
  const std::array<std::string, 3> names = {"cat", "dog", kScript};
  Table table{.at = {"eval/class_scores", step, 0, 0}, .columns = {"label"}};
  for (const auto& name : names) table.columns.push_back("score/" + name);
  for (size_t i = 0; i < 90; ++i) {
    const auto actual = i % names.size();
    std::vector<Json> row = {names[actual]};
    for (size_t k = 0; k < names.size(); ++k)
      row.push_back(static_cast<double>((i * 29 + k * 17) % 23) + (k == actual ? 9 : 0));
    table.rows.push_back(row);
  }
  return table;
}

// Sorted by label: only the rows after the first page show that the labels are names.
Table sorted_scores(int64_t step) {
  Table table{.at = {"eval/sorted_scores", step, 0, 0}, .columns = {"label", "score"}};
  for (int i = 0; i < 900; ++i) table.rows.push_back({i < 300 ? Json(1) : Json("cat"), i / 1000.0});
  return table;
}

// No sample of one class, and a label without scores.
Table missing_scores(int64_t step) {
  Table table{.at = {"eval/missing_scores", step, 0, 0},
              .columns = {"label", "score/cat", "score/dog", "score/eel"}};
  for (int i = 0; i < 30; ++i)
    table.rows.push_back({i % 3 == 0 ? "cat" : i % 3 == 1 ? "dog" : "fox", i % 5, i % 7, 0});
  return table;
}

// Of a class with an unusual name, no sample has at least the usual threshold.
Table rare_class(int64_t step) {
  Table table{.at = {"eval/rare_class", step, 0, 0}, .columns = {"class", "label", "score"}};
  for (int i = 0; i < 10; ++i) {
    table.rows.push_back({"cat", i % 2 == 0, i / 10.0});
    table.rows.push_back({"others", false, i / 100.0});
  }
  return table;
}

void record_gallery(const std::filesystem::path& runs) {
  auto job = job_of("gallery-1", std::string("gallery ") + kScript, 0, 1);
  job.group = job.host = kScript;
  job.command = {"lockstep-trainer", kScript};
  auto tracker = open_rank(runs, job, {{"model", {{"name", kScript}}}, {kScript, {kScript}}});
  const auto hostile = std::string("eval/") + kScript;
  for (int64_t step = 0; step <= 200; step += 20) {
    const std::vector<Metric> metrics = {{"train/loss", 1 / static_cast<double>(step + 1)},
                                         {hostile, 0.5 + static_cast<double>(step) / 1000},
                                         {"train/sometimes_nan", step == 100 ? NAN : 1.0}};
    tracker.log(step, static_cast<double>(step) / 100, metrics);
    Image image;
    image.at.name = "eval/errors";
    image.at.step = step;
    image.width = image.height = 28;
    image.caption = kScript;
    image.png = gradient(28, static_cast<int>(step) / 20);
    tracker.image(image);
    tracker.histogram(bell("weights/fc1", step));
    tracker.table(confusion(step, 4));
    tracker.table(precision_recall(step));
    tracker.table(scores(step));
    tracker.table(class_scores(step));
    Table worst;
    worst.at.name = "eval/worst";
    worst.at.step = step;
    worst.columns = {"sample", "text"};
    worst.rows = {{step, kScript}, {step + 1, "plain"}};
    tracker.table(worst);
  }
  tracker.histogram(bell(hostile, 200));
  tracker.alert({.level = TextLevel::Error, .title = kScript, .text = kScript, .step = 100});
  tracker.text(TextLevel::Warning, kScript);
  tracker.finish({.state = RunState::Finished});
}

void record_charts(const std::filesystem::path& runs, int num_metrics, int64_t num_steps) {
  auto tracker = open_rank(runs, job_of("charts-1", "charts", 0, 1), Json::object());
  std::vector<std::string> names;
  for (int i = 0; i < num_metrics; ++i)
    names.push_back(fmt::format("part{}/metric_{:03}", i / 25, i));
  std::vector<Metric> metrics;
  for (const auto& name : names) metrics.push_back({name, 0});
  for (int64_t step = 0; step < num_steps; ++step) {
    for (size_t i = 0; i < metrics.size(); ++i)
      metrics[i].value = std::sin(static_cast<double>(step) / (20.0 + static_cast<double>(i))) +
                         0.1 * std::sin(static_cast<double>(step * 7919 % 1000));
    tracker.log(step, static_cast<double>(step) / 1000, metrics);
  }
  tracker.table(confusion(num_steps, 20));
  tracker.table(sorted_scores(num_steps));
  tracker.table(missing_scores(num_steps));
  tracker.table(rare_class(num_steps));
  tracker.finish({.state = RunState::Finished});
}

void record_ranks(const std::filesystem::path& runs, int num_ranks, int64_t num_steps) {
  for (int rank = 0; rank < num_ranks; ++rank) {
    auto tracker =
        open_rank(runs, job_of("ranks-1", "many ranks", rank, num_ranks), Json::object());
    for (int64_t step = 0; step < num_steps; ++step) {
      const double noise = std::sin(static_cast<double>(step * 31 + rank * 17));
      std::vector<Metric> metrics = {
          {"train/loss", 2 / (1 + static_cast<double>(step) * 0.02) + 0.1 * noise},
          {"rank/step_time_s", (rank == 1 ? 0.015 : 0.010) + 0.001 * noise}};
      if (rank == 0)
        metrics.insert(metrics.end(), {{"time/step/median", 0.016},
                                       {"time/slowest_rank", 1},
                                       {"time/slowest_rank_s", 0.015},
                                       {"time/other_ranks_s", 0.010}});
      tracker.log(step, static_cast<double>(step) / 100, metrics);
    }
    tracker.finish({.state = RunState::Finished});
  }
}

void record_many(const std::filesystem::path& runs, int num_runs) {
  for (int i = 0; i < num_runs; ++i) {
    const auto id = fmt::format("short-{:05}", i);
    auto tracker =
        open_rank(runs, job_of(id, id, 0, 1), {{"optimizer", {{"lr", (i % 10) * 0.01}}}});
    const std::vector<Metric> metrics = {{"eval/accuracy", i % 100 / 100.0}};
    tracker.log(10, 1, metrics);
    tracker.finish({.state = RunState::Finished});
  }
}

void record_sweep(const std::filesystem::path& runs, int num_runs, int64_t num_steps) {
  constexpr std::array kRates = {0.01, 0.03, 0.1, 0.3, 1.0};
  constexpr std::array kWidths = {32, 64, 128};
  for (int i = 0; i < num_runs; ++i) {
    const auto lr = kRates[static_cast<size_t>(i % 5)];
    const auto width = kWidths[static_cast<size_t>(i / 5 % 3)];
    const auto seed = i / 15;
    auto job =
        job_of(fmt::format("sweep-{:02}", i), fmt::format("lr{}-w{}-s{}", lr, width, seed), 0, 1);
    job.group = "sweep";
    auto tracker = open_rank(runs, job,
                             {{"run", {{"seed", seed}}},
                              {"optimizer", {{"name", "sgd"}, {"lr", lr}}},
                              {"model", {{"name", "mlp"}, {"hidden", width}}}});
    for (int64_t step = 0; step < num_steps; ++step) {
      const auto at = static_cast<double>(step) / static_cast<double>(num_steps);
      const auto noise = 0.03 * std::sin(static_cast<double>(step * 37 + i * 101));
      const auto loss = 2.3 * std::exp(-at * (2 + 6 * lr) * width / 64.0) + 0.1 + 0.2 * lr + noise;
      std::vector<Metric> metrics = {
          {"train/loss", loss},
          {"train/lr", lr},
          {"time/step_s", 0.012 + 0.001 * noise},
          {"system/memory_bytes", 69.28e9 + 4e7 * at},
          {"system/swap_bytes", 0},
          {"system/cpu_percent", std::min(100.0, 92 + 300 * std::abs(noise))},
          {"system/disk.read_bytes_per_s", 1e6 * (i + 1)}};
      if (step % 20 == 19) {
        metrics.push_back({"eval/accuracy", 1 - 0.3 * loss});
        metrics.push_back({"eval/loss", loss * 1.1});
      }
      if (step == num_steps - 1) metrics.push_back({"test/accuracy", 1 - 0.31 * loss});
      tracker.log(step, 3 * at, metrics);
    }
    tracker.finish({.state = RunState::Finished});
  }
}

void record_curves(const std::filesystem::path& runs, int num_runs, int64_t num_steps) {
  for (int i = 0; i < num_runs; ++i) {
    const auto id = fmt::format("curve-{}", i);
    for (int rank = 0; rank < 2; ++rank) {
      auto job = job_of(id, id, rank, 2);
      job.created = 1000.0 * (i + 1);
      if (i % 2 == 0) job.group = "even";
      auto tracker = open_rank(runs, job,
                               {{"optimizer", {{"lr", 0.1 / (i + 1)}, {"nesterov", i == 1}}},
                                {"data", {{"batch_size", 32 << i}, {"name", "mnist"}}}});
      for (int64_t step = 0; step < num_steps; ++step) {
        const auto at = static_cast<double>(step);
        const auto loss = (i + 1 + 0.1 * rank) / (1 + 0.01 * at);
        const std::vector<Metric> metrics = {{"train/loss", i == 2 && step > 10 ? NAN : loss}};
        tracker.log(step, at / 100, metrics);
      }
      tracker.finish(
          {.state = i == 1 ? RunState::Failed : RunState::Finished, .exit_code = i == 1 ? 78 : 0});
    }
    tracking::change_run_tags(runs / id, {i == 0 ? "+baseline" : "+other"},
                              fmt::format("note {}", i));
  }
}

void record_study(const std::filesystem::path& runs, int num_runs) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> uniform;
  constexpr std::array kWidths = {32, 64, 128, 256, 512};
  constexpr std::array kNames = {"adamw", "lion", "muon", "sgd"};
  for (int i = 0; i < num_runs; ++i) {
    const auto lr = std::pow(10, -4 + 3 * uniform(random));
    const auto width = kWidths[random() % kWidths.size()];
    Json config = {{"optimizer",
                    {{"name", kNames[random() % kNames.size()]},
                     {"lr", lr},
                     {"momentum", std::round(100 * uniform(random)) / 100},
                     {"weight_decay", std::pow(10, -5 + 4 * uniform(random))},
                     {"nesterov", uniform(random) < 0.5}}},
                   {"model",
                    {{"hidden", width},
                     {"layers", 1 + static_cast<int>(random() % 6)},
                     {"dropout", std::round(50 * uniform(random)) / 100}}},
                   {"data", {{"batch_size", 16 << (random() % 5)}}},
                   {"train", {{"warmup", static_cast<int>(random() % 2000)}}}};
    for (int k = 0; k < 10; ++k)
      config["augment"][fmt::format("strength_{}", k)] = std::round(1000 * uniform(random)) / 1000;
    auto job = job_of(fmt::format("study-{:04}", i), fmt::format("trial {}", i), 0, 1);
    job.group = "study";
    auto tracker = open_rank(runs, job, config);
    // The best learning rate is lower for wider models.
    const auto off = std::log10(lr) + 1.2 + 0.8 * std::log2(width / 32.0) / 2;
    const auto loss =
        0.25 + 0.5 * off * off - 0.03 * std::log2(width / 32.0) + 0.05 * uniform(random);
    for (int64_t step = 0; step < 5; ++step) {
      const auto now = loss + 2 * std::exp(-static_cast<double>(step + 1));
      const std::vector<Metric> metrics = {{"train/loss", 0.9 * now},
                                           {"eval/loss", i % 97 == 13 ? NAN : now},
                                           {"eval/accuracy", 1 / (1 + 0.4 * now)},
                                           {"time/step_s", 0.01 * width / 64}};
      tracker.log(100 * step, static_cast<double>(step), metrics);
    }
    tracker.finish({.state = RunState::Finished});
  }
}

void record_odd(const std::filesystem::path& runs) {
  const auto job = job_of("odd-1",
                          "odd \xe2\x80\xae"
                          "eman",
                          0, 2);
  auto tracker = open_rank(runs, job, {{"optimizer", {{"lr", 0.022073885417}}}});
  for (int64_t step = 0; step < 10; ++step) {
    const std::vector<Metric> metrics = {{"train/loss", NAN},
                                         {"eval/accuracy", 0.1 * static_cast<double>(step)}};
    tracker.log(100 * step, NAN, metrics);
  }
  tracking::EventLogWriter node(tracking::node_log_path(runs / job.job_id, 1));
  node.identity({.id = "odd-1-node-1", .name = "node 1", .job_id = "odd-1", .node_rank = 1});
  for (int i = 0; i < 2000; ++i)
    node.console({.time = tracking::unix_now(), .rank = 1, .line = fmt::format("far line {}", i)});
  node.close();
  tracker.finish({.state = RunState::Finished,
                  .reason = "stopped on request after step 900 of 1000: seen enough"});
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 2 && words[1] == "gallery")
    record_gallery(words[0]);
  else if (words.size() == 4 && words[1] == "charts")
    record_charts(words[0], std::stoi(words[2]), std::stoll(words[3]));
  else if (words.size() == 4 && words[1] == "ranks")
    record_ranks(words[0], std::stoi(words[2]), std::stoll(words[3]));
  else if (words.size() == 3 && words[1] == "many")
    record_many(words[0], std::stoi(words[2]));
  else if (words.size() == 4 && words[1] == "sweep")
    record_sweep(words[0], std::stoi(words[2]), std::stoll(words[3]));
  else if (words.size() == 4 && words[1] == "curves")
    record_curves(words[0], std::stoi(words[2]), std::stoll(words[3]));
  else if (words.size() == 3 && words[1] == "study")
    record_study(words[0], std::stoi(words[2]));
  else if (words.size() == 2 && words[1] == "odd")
    record_odd(words[0]);
  else
    return 64;
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 70;
}
