// Dataset "idx", built through the registry as a run file does.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lockstep/dataset.h"
#include "lockstep/part.h"
#include "tests/data/error_of.h"
#include "tests/data/idx_bytes.h"
#include "tests/temporary_directory.h"

namespace lockstep::data {
namespace {

std::shared_ptr<Dataset> build(const std::filesystem::path& path, const std::string& more = "") {
  Part<Dataset> part(dataset_registry());
  const auto yaml =
      "{name: idx, path: '" + path.string() + "'" + (more.empty() ? "" : ", " + more) + "}";
  part.read(parse_config(yaml, "run.yaml"), "data.train");
  return part.build();
}

// Three images of 2 x 2 pixels; pixel p of image i is 10 * i + p.
struct ThreeImages {
  TemporaryDirectory directory;
  std::vector<uint8_t> images = idx_bytes({3, 2, 2}, {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 255});
  std::vector<uint8_t> labels = idx_bytes({3}, {7, 8, 9});
  ThreeImages() {
    directory.write("train-images-idx3-ubyte", images);
    directory.write("train-labels-idx1-ubyte", labels);
  }
  std::string error(const std::string& more = "") const {
    auto text = error_of([&] { build(directory.path(), more); });
    for (size_t at; (at = text.find(directory.path().string())) != std::string::npos;)
      text.replace(at, directory.path().string().size(), "DIR");
    return text;
  }
};

TEST_CASE("idx dataset: batches have the samples in the requested order") {
  const ThreeImages files;
  const auto dataset = build(files.directory.path());
  CHECK(dataset->size() == 3);
  const std::vector<int64_t> indices = {2, 0, 2};
  const auto batch = dataset->get_batch(indices);
  CHECK(batch.size() == 3);
  CHECK(batch.indices.equal(at::tensor(indices)));
  CHECK(batch.at("label").equal(at::tensor(std::vector<int64_t>{9, 7, 9})));
  const auto& image = batch.at("image");
  CHECK(image.sizes() == at::IntArrayRef{3, 1, 2, 2});
  const auto expected =
      at::tensor(std::vector<float>{20, 21, 22, 255, 0, 1, 2, 3, 20, 21, 22, 255});
  CHECK(image.equal(expected.div(255).reshape({3, 1, 2, 2})));
}

TEST_CASE("idx dataset: mean and std are applied after the division by 255") {
  const ThreeImages files;
  const std::vector<int64_t> indices = {0, 1, 2};
  const auto plain = build(files.directory.path())->get_batch(indices).at("image");
  const auto scaled =
      build(files.directory.path(), "mean: 0.1307, std: 0.3081")->get_batch(indices).at("image");
  CHECK(scaled.equal(plain.sub(0.1307).div(0.3081)));
  CHECK_FALSE(scaled.equal(plain));
}

TEST_CASE("idx dataset: limit keeps the first samples") {
  const ThreeImages files;
  const auto dataset = build(files.directory.path(), "limit: 2");
  CHECK(dataset->size() == 2);
  CHECK(dataset->get_batch(std::vector<int64_t>{1}).at("label").item<int64_t>() == 8);
  CHECK(error_of([&] { dataset->get_batch(std::vector<int64_t>{2}); }).starts_with("bug: "));
  CHECK(files.error("limit: 4") ==
        "config: dataset idx: limit 4 is larger than the number of samples, 3");
}

TEST_CASE("idx dataset: compressed files and custom file names are found") {
  const ThreeImages files;
  const TemporaryDirectory other;
  other.write("t10k-images-idx3-ubyte.gz", gzipped(files.images));
  other.write("answers", files.labels);
  CHECK(build(other.path(), "split: test, labels: answers")->size() == 3);
}

TEST_CASE("idx dataset: a file that changes while it is read is an error") {
  const ThreeImages files;
  const auto dataset = build(files.directory.path());
  files.directory.write("train-images-idx3-ubyte", {0, 0, 8});
  CHECK(error_of([&] { dataset->get_batch(std::vector<int64_t>{1}); }) ==
        "environment: " + (files.directory.path() / "train-images-idx3-ubyte").string() +
            ": was truncated to 3 bytes while it was being read");
}

TEST_CASE("idx dataset: an empty batch is valid") {
  const ThreeImages files;
  CHECK(build(files.directory.path())->get_batch({}).at("image").sizes() ==
        at::IntArrayRef{0, 1, 2, 2});
}

TEST_CASE("idx dataset: contradictory settings are errors") {
  const ThreeImages files;
  CHECK(files.error("mean: 0.5") == "config: dataset idx: set both mean and std: std is missing");
  CHECK(files.error("std: 0.5") == "config: dataset idx: set both mean and std: mean is missing");
  CHECK(files.error("mean: 0, std: 0")
            .starts_with("config: run.yaml:1: data.train.std: expected more than 0"));
  CHECK(files.error("split: val")
            .starts_with("config: run.yaml:1: data.train.split: unknown value 'val'"));
  CHECK(
      files.error("spilt: test")
          .starts_with("config: run.yaml:1: data.train.spilt: unknown key; did you mean 'split'?"));
}

TEST_CASE("idx dataset: the error about missing files names them and their source") {
  const ThreeImages files;
  const std::string source =
      " (MNIST: 'make setup' in Lockstep's sources fetches it into .data/mnist; torchvision has it "
      "in MNIST/raw)";
  CHECK(files.error("split: test") ==
        "config: dataset idx: no file DIR/t10k-images-idx3-ubyte or DIR/t10k-images-idx3-ubyte.gz" +
            source);
  CHECK(files.error("labels: mine") == "config: dataset idx: no file DIR/mine" + source);
}

TEST_CASE("idx dataset: swapped files are recognized") {
  const ThreeImages files;
  CHECK(files.error("images: train-labels-idx1-ubyte, labels: train-images-idx3-ubyte") ==
        "config: dataset idx: DIR/train-images-idx3-ubyte holds 3 x 2 x 2, but labels have 1 "
        "dimension (count); were the "
        "files of images and labels swapped?");
  CHECK(files.error("images: train-labels-idx1-ubyte") ==
        "config: dataset idx: DIR/train-labels-idx1-ubyte holds 3, but images have 3 dimensions "
        "(count x height x width); "
        "were the files of images and labels swapped?");
  files.directory.write("flat", idx_bytes({3, 4}, std::vector<uint8_t>(12)));
  CHECK(files.error("images: flat") ==
        "config: dataset idx: DIR/flat holds 3 x 4, but images have 3 dimensions (count x height x "
        "width)");
}

TEST_CASE("idx dataset: different counts and truncated files are errors") {
  const ThreeImages files;
  files.directory.write("two", idx_bytes({2}, {1, 2}));
  CHECK(files.error("labels: two") ==
        "config: dataset idx: DIR/train-images-idx3-ubyte has 3 images, but DIR/two has 2 labels");
  files.directory.write("cut", {files.images.begin(), files.images.end() - 1});
  CHECK(files.error("images: cut") ==
        "config: DIR/cut: truncated: 3 x 2 x 2 elements and the header require 28 bytes, found 27");
}

}  // namespace
}  // namespace lockstep::data
