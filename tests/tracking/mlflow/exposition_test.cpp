#include "tracking/sinks/prometheus/exposition.h"

#include <catch2/catch.hpp>
#include <limits>

using namespace lockstep;
using namespace lockstep::tracking;

TEST_CASE("exposition: rank, node and GPU in a name become labels") {
  struct Row {
    std::string metric, family;
    PrometheusLabels labels;
  };
  const std::vector<Row> rows = {
      {"train/loss", "lockstep_train_loss", {}},
      {"train/loss/rank-3", "lockstep_train_loss", {{"rank", "3"}}},
      {"train/loss/rank-", "lockstep_train_loss_rank_", {}},
      {"train/rank-3/loss", "lockstep_train_rank_3_loss", {}},
      {"system/cpu_percent", "lockstep_system_cpu_percent", {}},
      {"system/cpu.12.percent", "lockstep_system_cpu_12_percent", {}},
      {"system/gpu.0.utilization", "lockstep_system_gpu_utilization", {{"gpu", "0"}}},
      {"system/node-12/gpu.3.utilization",
       "lockstep_system_gpu_utilization",
       {{"node", "12"}, {"gpu", "3"}}},
      {"system/gpu.x", "lockstep_system_gpu_x", {}},
      {"a=b[ä]", "lockstep_a_b____", {}},
      {"", "lockstep_", {}},
  };
  for (const auto& row : rows) {
    CAPTURE(row.metric);
    auto labels = row.labels;
    labels["metric"] = row.metric;
    const auto series = prometheus_series(row.metric);
    CHECK(series.family == row.family);
    CHECK(series.labels == labels);
  }
}

TEST_CASE("exposition: samples are grouped by family, labels are escaped") {
  const auto inf = std::numeric_limits<double>::infinity();
  const PrometheusEntry one{.labels = {{"rank", "0"}, {"run", "a"}},
                            .info = {{"name", "say \"hi\"\\\n"}},
                            .values = {{"x", 0.1}, {"y/rank-4", -inf}},
                            .step = 7,
                            .time = 1.5};
  const PrometheusEntry two{
      .labels = {{"rank", "1"}, {"run", "b\xff"}},
      .values = {{"x", std::numeric_limits<double>::quiet_NaN()}, {"z", inf}}};
  CHECK(prometheus_text({one, two}) ==
        "# TYPE lockstep_last_record_timestamp_seconds gauge\n"
        "lockstep_last_record_timestamp_seconds{rank=\"0\",run=\"a\"} 1.5\n"
        "lockstep_last_record_timestamp_seconds{rank=\"1\",run=\"b?\"} 0\n"
        "# TYPE lockstep_run_info gauge\n"
        "lockstep_run_info{name=\"say \\\"hi\\\"\\\\\\n\",rank=\"0\",run=\"a\"} 1\n"
        "lockstep_run_info{rank=\"1\",run=\"b?\"} 1\n"
        "# TYPE lockstep_step gauge\n"
        "lockstep_step{rank=\"0\",run=\"a\"} 7\n"
        "lockstep_step{rank=\"1\",run=\"b?\"} 0\n"
        "# TYPE lockstep_x gauge\n"
        "lockstep_x{metric=\"x\",rank=\"0\",run=\"a\"} 0.1\n"
        "lockstep_x{metric=\"x\",rank=\"1\",run=\"b?\"} NaN\n"
        "# TYPE lockstep_y gauge\n"
        "lockstep_y{metric=\"y/rank-4\",rank=\"4\",run=\"a\"} -Inf\n"
        "# TYPE lockstep_z gauge\n"
        "lockstep_z{metric=\"z\",rank=\"1\",run=\"b?\"} +Inf\n");
}
