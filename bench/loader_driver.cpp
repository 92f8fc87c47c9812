// Driver of bench/loader.py: measures the loader, and the limits of the machine.
//   lockstep_bench_loader load YAML BATCH WORKERS SECONDS   shuffled epochs of the dataset in YAML
//   lockstep_bench_loader stream YAML BATCH WORKERS CACHE [BUFFER]   one shuffled epoch of data in a bucket, through the empty
//                                                           directory CACHE, with data.shuffle_buffer BUFFER; times are those
//                                                           since the dataset is opened
//   lockstep_bench_loader decode THREADS SECONDS FILE...    decodes JPEG files that are in memory
//   lockstep_bench_loader copy BYTES SECONDS                repeated memcpy of BYTES bytes
// Each prints one line of JSON.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>

#include "core/system/durable_file.h"
#include "core/system/malloc_tuning.h"
#include "data/loader/loader.h"
#include "data/sampling/sampling.h"
#include "data/sampling/split.h"
#include "formats/images/decode.h"
#include "formats/store/process_cache.h"
#include "lockstep/part.h"

using namespace lockstep;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Peak resident set size.
double peak_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  return 0;
}

struct Amount {
  int64_t samples = 0, bytes = 0;
};

// One epoch, or less if the time is up.
Amount run_epoch(const Dataset& dataset, data::LoaderOptions options, Clock::time_point end) {
  data::DistributedSampler sampler(
      dataset.size(), {},
      data::sampler_options({}, dataset, 0, {.batch_size = options.batch_size}));
  sampler.set_epoch(options.epoch);
  data::Loader loader(dataset, sampler.sequence(), std::move(options));
  Amount amount;
  while (Clock::now() < end) {
    const auto batch = loader.next();
    if (!batch) break;
    amount.samples += batch->size();
    for (const auto& [name, tensor] : batch->fields)
      amount.bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return amount;
}

std::shared_ptr<const Dataset> open_dataset(const std::string& yaml) {
  Part<Dataset> part(dataset_registry());
  part.read(parse_config(yaml, "yaml"), "data");
  return data::build_datasets(part, Part<Dataset>(dataset_registry()), {}).train;
}

Json load(const std::vector<std::string>& words) {
  const auto dataset = open_dataset(words.at(0));
  const data::LoaderOptions options = {.batch_size = std::stoll(words.at(1)),
                                       .workers = std::stoll(words.at(2))};
  const std::chrono::duration<double> time(std::stod(words.at(3)));
  const auto busy_before = std::clock();
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration_cast<Clock::duration>(time);
  Amount total;
  for (int64_t epoch = 0; Clock::now() < end; ++epoch) {
    auto of_epoch = options;
    of_epoch.epoch = epoch;
    const auto amount = run_epoch(*dataset, of_epoch, end);
    total.samples += amount.samples;
    total.bytes += amount.bytes;
  }
  const auto elapsed = seconds_since(begin);
  return {{"samples_per_s", static_cast<double>(total.samples) / elapsed},
          {"mb_per_s", static_cast<double>(total.bytes) / 1e6 / elapsed},
          // Processor time of all threads: independent of other load.
          {"cpu_us_per_sample", static_cast<double>(std::clock() - busy_before) * 1e6 /
                                    CLOCKS_PER_SEC / static_cast<double>(total.samples)},
          {"peak_mb", peak_megabytes()}};
}

Json stream(const std::vector<std::string>& words) {
  formats::set_default_bucket_options({.region = "us-east-1"});
  formats::set_object_cache({.directory = words.at(3), .max_bytes = int64_t{20} << 30});
  formats::use_buckets();
  const auto begin = Clock::now();
  const auto dataset = open_dataset(words.at(0));
  const auto opened = seconds_since(begin);
  const data::LoaderOptions options = {.batch_size = std::stoll(words.at(1)),
                                       .workers = std::stoll(words.at(2))};
  data::LoaderConfig config;
  if (words.size() > 4) config.shuffle_buffer = std::stoll(words[4]);
  const data::DistributedSampler sampler(
      dataset->size(), {},
      data::sampler_options(config, *dataset, 0, {.batch_size = options.batch_size}));
  data::Loader loader(*dataset, sampler.sequence(), options);
  int64_t samples = 0, first = 0;
  double first_s = 0;
  while (const auto batch = loader.next()) {
    samples += batch->size();
    if (first == 0) first = samples, first_s = seconds_since(begin);
  }
  const auto stats = formats::store_stats();
  return {{"samples", samples},        {"seconds", seconds_since(begin)},
          {"opened_s", opened},        {"first_batch", first},
          {"first_batch_s", first_s},  {"store_bytes", stats.bytes},
          {"requests", stats.requests}};
}

Json decode(const std::vector<std::string>& words) {
  std::vector<std::string> files;
  for (size_t i = 2; i < words.size(); ++i) files.push_back(read_file(words[i]));
  const auto seconds = std::stod(words.at(1));
  std::atomic<int64_t> decoded{0};
  const auto begin = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (int64_t i = 0; i < std::stoll(words.at(0)); ++i)
      threads.emplace_back([&] {
        for (size_t at = 0; seconds_since(begin) < seconds; ++at, ++decoded) {
          const auto& file = files[at % files.size()];
          formats::decode_image({reinterpret_cast<const uint8_t*>(file.data()), file.size()},
                                "file");
        }
      });
  }
  return {{"samples_per_s", static_cast<double>(decoded) / seconds_since(begin)}};
}

Json copy(const std::vector<std::string>& words) {
  const auto bytes = std::stoull(words.at(0));
  const auto seconds = std::stod(words.at(1));
  std::vector<char> from(bytes, 1), to(bytes);
  int64_t rounds = 0;
  const auto begin = Clock::now();
  for (; seconds_since(begin) < seconds; ++rounds) {
    std::memcpy(to.data(), from.data(), bytes);
    from[0] = to[bytes / 2];  // so that the compiler cannot remove the copy
  }
  return {{"mb_per_s",
           static_cast<double>(rounds) * static_cast<double>(bytes) / 1e6 / seconds_since(begin)}};
}

}  // namespace

int main(int argc, char** argv) {
  disable_malloc_trim();  // as in the trainer
  at::set_num_threads(1);
  try {
    const std::vector<std::string> words(argv + std::min(argc, 2), argv + argc);
    const std::string what = argc > 1 ? argv[1] : "";
    const auto result = what == "load"     ? load(words)
                        : what == "stream" ? stream(words)
                        : what == "decode" ? decode(words)
                                           : copy(words);
    std::cout << result.dump() << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "lockstep_bench_loader: " << error.what() << "\n";
    return 1;
  }
}
