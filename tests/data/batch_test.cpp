#include "lockstep/batch.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tests/data/error_of.h"

namespace lockstep::data {
namespace {

TEST_CASE("batch: the error about a missing field names the existing fields") {
  const Batch batch{.fields = {{"image", at::zeros({2, 3})}, {"label", at::zeros({2})}},
                    .indices = at::arange(2)};
  CHECK(batch.size() == 2);
  CHECK(batch.at("image").size(1) == 3);
  CHECK(error_of([&] { batch.at("tokens"); }) ==
        "config: the model needs the field 'tokens', but the dataset has only: image, label; "
        "choose a model that fits "
        "the dataset");
  CHECK(error_of([] { Batch{}.at("x"); }) ==
        "config: the model needs the field 'x', but the dataset has no fields; choose a model "
        "that fits the dataset");
}

TEST_CASE("batch: to() moves the fields and keeps names, values and indices") {
  const Batch batch{.fields = {{"a", at::arange(3)}, {"b", at::ones({3, 2})}},
                    .indices = at::arange(5, 8)};
  const auto moved = batch.to(at::kCPU);
  CHECK(moved.fields.size() == 2);
  CHECK(moved.at("a").equal(batch.at("a")));
  CHECK(moved.at("b").equal(batch.at("b")));
  CHECK(moved.indices.equal(batch.indices));
  CHECK(batch.to(at::kMeta).at("a").is_meta());
  CHECK(batch.to(at::kMeta).indices.is_cpu());
}

}  // namespace
}  // namespace lockstep::data
