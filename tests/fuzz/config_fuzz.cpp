// Arbitrary bytes are either a run file or a one-line Config error. The first line of the input is
// an override, the rest the file. The result must survive dumping and reading.
#include <cstdlib>
#include <string>

#include "core/config/config_text.h"
#include "core/config/period.h"
#include "lockstep/config_fields.h"
#include "lockstep/config_value.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

struct Optimizer {
  double lr = 0.1;
  std::optional<double> clip;
  std::string name = "sgd";
};
template <class V>
void fields(V& v, Optimizer& c) {
  v("lr", c.lr, "", above(0));
  v("clip", c.clip, "", above(0));
  v("name", c.name, "");
}

enum class Mode { Fast, Safe };
constexpr auto choices(Mode) { return std::array{"fast", "safe"}; }

struct RunFile {
  Optimizer optimizer;
  std::vector<int64_t> hidden;
  std::vector<std::string> kinds;
  Period every;
  Duration timeout{std::chrono::minutes(30)};
  bool shuffle = true;
  Mode mode = Mode::Fast;
};
template <class V>
void fields(V& v, RunFile& c) {
  v("optimizer", c.optimizer, "");
  v("hidden", c.hidden, "", at_least(1));
  v("kinds", c.kinds, "");
  v("every", c.every, "");
  v("timeout", c.timeout, "");
  v("shuffle", c.shuffle, "");
  v("mode", c.mode, "");
}

Json read(const ConfigNode& root) {
  RunFile config;
  read_fields(root, "", config);
  return ConfigDumper::dump(config);
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {
      "optimizer.lr=0.5\noptimizer: {name: adamw, lr: 1e-3, clip: null}\nhidden: [256, 128]\n",
      "mode=safe\nevery: 10 steps\ntimeout: 30 min\nshuffle: false\nkinds: [\"a\\n\", 'b', c]\n",
      "hidden=[1, 2]\n# comment\n---\nkinds:\n  - |\n    text\n  - >\n    more\n  - \"\\u00e9 "
      "\\x41\"\n",
      "optimizer={lr: 2}\noptimizer: &a {lr: 1}\nkinds: &k [x, &v y, *v]\nhidden: [1, 1]\n"};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const std::string input(reinterpret_cast<const char*>(data), size);
  const auto end = std::min(input.find('\n'), size);
  Json json;
  try {
    auto root = parse_config(input.substr(std::min(end + 1, size)), "run.yaml");
    apply_override(root, input.substr(0, end));
    json = read(root);
  } catch (const Error& error) {
    const std::string text = error.what();
    if (error.kind() != ErrorKind::Config || text.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  if (read(parse_config(to_yaml(json), "config.yaml")) != json) std::abort();
  return 0;
}
