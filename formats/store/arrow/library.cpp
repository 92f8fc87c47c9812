// What the library of buckets exports.
#include <arrow/util/async_util.h>

#include "formats/store/arrow/arrow_store.h"

namespace lockstep::formats {
namespace {

void start_all() {
  start_s3();
  start_gcs();
  start_azure();
  // Has a static variable that listings use.
  arrow::util::AsyncTaskScheduler::Make([](auto*) { return arrow::Status::OK(); }).Wait();
}

ObjectStore* open_bucket(const BucketOptions& options) {
  switch (options.kind) {
    case StoreKind::Gcs: return open_gcs(options);
    case StoreKind::Azure: return open_azure(options);
    default: return open_s3(options);
  }
}

}  // namespace
}  // namespace lockstep::formats

extern "C" const lockstep::formats::ObjectStoreLibrary lockstep_object_stores = {
    .start = lockstep::formats::start_all,
    .finish = lockstep::formats::finish_s3,
    .open = lockstep::formats::open_bucket};
