// Reads Arrow's IPC formats: files (.arrow, Feather version 2) and streams, as written by Hugging
// Face's datasets. Uncompressed buffers are used in place.
#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/api.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

#include "core/printable.h"
#include "formats/parquet/arrow_errors.h"
#include "formats/parquet/ipc_bytes.h"
#include "formats/parquet/ipc_messages.h"
#include "formats/parquet/ipc_rows.h"
#include "formats/parquet/memory_limits.h"
#include "formats/parquet/pandas_index.h"
#include "formats/table/columnar_file.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

using BatchPointer = std::shared_ptr<arrow::RecordBatch>;

constexpr std::string_view kFileMark = "ARROW1", kFeatherOne = "FEA1", kParquetMark = "PAR1";
constexpr int64_t kMarkBytes = 8;  // with padding

class ArrowIpcFile final : public ColumnarFile {
  template <class Act>
  auto guard(const Act& act) const {
    return guarded(name_, act, kIpcFormat);
  }

 public:
  ArrowIpcFile(std::span<const uint8_t> bytes, std::string name)
      : name_(std::move(name)),
        bytes_(std::make_shared<arrow::Buffer>(bytes.data(), std::ssize(bytes))) {
    guard([&] {
      const bool is_file = verify_kind();
      is_file ? open_file() : open_stream();
      if (!schema_->is_native_endian())
        throw ipc_error(name_, "its numbers are big-endian: write it again on this machine");
      index_rows();
      if (!messages_.dictionaries.empty() && !messages_.batches.empty()) read_dictionaries(is_file);
    });
  }

  std::vector<std::string> columns() const override { return schema_->field_names(); }

  std::vector<std::string> index_columns() const override {
    return guard([&] { return pandas_index(schema_->metadata()); });
  }

  std::vector<int64_t> row_groups() const override {
    std::vector<int64_t> rows;
    for (const auto& batch : messages_.batches) rows.push_back(batch.rows);
    return rows;
  }

  bool has_row_access() const override { return !messages_.is_compressed; }
  bool may_pass(size_t, const RowFilter&) const override { return true; }
  bool is_complete(size_t, const std::vector<std::string>&) const override { return false; }

  DataTable read(size_t row_group, const std::vector<std::string>& columns,
                 const ParallelFor& work) const override {
    return guard([&] {
      DataTable table{.name = name_};
      table.rows = static_cast<size_t>(messages_.batches[row_group].rows);
      verify_memory(table.rows, columns.size());
      table.places.resize(table.rows);
      std::iota(table.places.begin(), table.places.end(), first_rows_[row_group] + 1);
      std::vector<std::vector<TableColumn>> parts(columns.size());
      work(columns.size(), [&](size_t number) {
        guard([&] {
          const auto field = field_of(columns[number]);
          const auto batch = batch_at(row_group, {field});
          const RowRun all{batch->column(0).get(), 0, batch->num_rows()};
          parts[number] = column_of(field, {&all, 1}, table);
        });
      });
      for (auto& part : parts) std::ranges::move(part, std::back_inserter(table.columns));
      return table;
    });
  }

  DataTable read_rows(std::span<const RowPlace> rows,
                      const std::vector<std::string>& columns) const override {
    return guard([&] {
      DataTable table{.name = name_};
      table.rows = rows.size();
      verify_memory(table.rows, columns.size());
      for (const auto& row : rows) table.places.push_back(first_rows_[row.group] + row.row + 1);
      std::vector<int> fields;
      for (const auto& column : columns) fields.push_back(field_of(column));
      auto included = fields;
      std::ranges::sort(included);
      std::map<size_t, BatchPointer> batches;
      for (const auto& row : rows)
        if (auto& batch = batches[row.group]; !batch) batch = batch_at(row.group, included);
      for (const auto field : fields) {
        const auto column = std::ranges::find(included, field) - included.begin();
        std::vector<RowRun> runs;
        for (const auto& row : rows) {
          const auto* array = batches[row.group]->column(static_cast<int>(column)).get();
          const bool follows = !runs.empty() && runs.back().array == array &&
                               runs.back().begin + runs.back().count == row.row;
          if (follows)
            ++runs.back().count;
          else
            runs.push_back({array, row.row, 1});
        }
        std::ranges::move(column_of(field, runs, table), std::back_inserter(table.columns));
      }
      return table;
    });
  }

  std::vector<uint8_t> read_bytes(const RowPlace& row, const std::string& column) const override {
    return guard([&] {
      const auto batch = batch_at(row.group, {field_of(column)});
      const auto where = fmt::format("{}: row {}: column '{}'", name_,
                                     first_rows_[row.group] + row.row + 1, printable(column));
      return bytes_at(*batch->column(0), row.row, where);
    });
  }

 private:
  // Whether it is in the file format; otherwise a stream.
  bool verify_kind() const {
    const std::string_view text(reinterpret_cast<const char*>(bytes_->data()),
                                static_cast<size_t>(bytes_->size()));
    if (text.starts_with(kFeatherOne))
      throw ipc_error(name_,
                      "it is a Feather file of version 1; read it with pandas and write version 2");
    if (text.starts_with(kParquetMark))
      throw ipc_error(name_, "it is a Parquet file; use the dataset parquet");
    if (text.empty()) throw ipc_error(name_, "it is empty");
    if (!text.starts_with(kFileMark)) return false;
    if (!text.ends_with(kFileMark) || bytes_->size() < 2 * kMarkBytes)
      throw ipc_error(name_, "it has no footer: it was truncated, or its writer was not closed");
    return true;
  }

  void open_stream() {
    messages_ = find_messages(bytes_, 0, /*has_schema=*/true, name_);
    schema_ = accepted(arrow::ipc::ReadSchema(*messages_.schema, &dictionaries_), name_);
  }

  // The schema is that of the footer: Polars writes no message with it.
  void open_file() {
    auto options = read_options();
    options.ensure_native_endian = false;  // so that the schema says how the numbers are stored
    const auto file = accepted(arrow::ipc::RecordBatchFileReader::Open(reader(), options), name_);
    schema_ = file->schema();
    accept(dictionaries_.fields().AddSchemaFields(*schema_), name_, kIpcFormat);
    if (const auto begin = first_block(*bytes_))
      messages_ = find_messages(bytes_, *begin, /*has_schema=*/false, name_);
    if (file->num_record_batches() != static_cast<int>(messages_.batches.size()))
      throw ipc_error(name_, fmt::format("it has {} record batches, but its footer has {}",
                                         messages_.batches.size(), file->num_record_batches()));
  }

  void index_rows() {
    const auto limit = max_rows(bytes_->size());
    int64_t sum = 0;
    for (const auto& batch : messages_.batches) {
      if (batch.rows < 0 || batch.rows > limit - sum)
        throw ipc_error(name_, fmt::format("record batch {} claims {} rows in a file of {} bytes",
                                           first_rows_.size() + 1, batch.rows, bytes_->size()));
      first_rows_.push_back(sum);
      sum += batch.rows;
    }
  }

  std::shared_ptr<arrow::io::BufferReader> reader() const {
    return std::make_shared<arrow::io::BufferReader>(bytes_);
  }

  // Dictionaries of columns; those in nested columns are not needed.
  void read_dictionaries(bool is_file) {
    if (!is_file && messages_.has_late_dictionaries)
      throw ipc_error(name_,
                      "its dictionaries change between record batches; write it in the file format "
                      "(pyarrow.ipc.new_file with unify_dictionaries), or cast the columns to "
                      "strings");
    for (const auto& dictionary : messages_.dictionaries) message_at(dictionary);
    message_at(messages_.batches.front());
    auto options = read_options();
    for (int i = 0; i < schema_->num_fields(); ++i)
      if (schema_->field(i)->type()->id() == arrow::Type::DICTIONARY)
        options.included_fields.push_back(i);
    if (options.included_fields.empty()) return;
    const auto batch = first_batch(is_file, options);
    for (size_t i = 0; i < options.included_fields.size(); ++i) {
      const auto id =
          accepted(dictionaries_.fields().GetFieldId({options.included_fields[i]}), name_);
      const auto& column = *batch->column(static_cast<int>(i));
      const auto& words = static_cast<const arrow::DictionaryArray&>(column).dictionary();
      accepted(dictionaries_.AddOrReplaceDictionary(id, words->data()), name_);
    }
  }

  BatchPointer first_batch(bool is_file, const arrow::ipc::IpcReadOptions& options) const {
    BatchPointer batch;
    if (is_file) {
      const auto file = accepted(arrow::ipc::RecordBatchFileReader::Open(reader(), options), name_);
      batch = accepted(file->ReadRecordBatch(0), name_);
    } else {
      const auto stream =
          accepted(arrow::ipc::RecordBatchStreamReader::Open(reader(), options), name_);
      accept(stream->ReadNext(&batch), name_, kIpcFormat);
    }
    if (!batch) throw ipc_error(name_, "it has no record batch");
    accept(batch->Validate(), name_, kIpcFormat);
    return batch;
  }

  static arrow::ipc::IpcReadOptions read_options() {
    auto options = arrow::ipc::IpcReadOptions::Defaults();
    options.use_threads = false;
    options.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
    return options;
  }

  // The message, whose buffers do not exceed the memory limit.
  std::unique_ptr<arrow::ipc::Message> message_at(const IpcMessage& place) const {
    arrow::io::BufferReader stream(bytes_);
    accept(stream.Seek(place.begin), name_, kIpcFormat);
    auto message = accepted(arrow::ipc::ReadMessage(&stream), name_);
    if (!message) throw ipc_error(name_, "a record batch is missing");
    const auto bytes = unpacked_bytes(*message, name_);
    const auto limit = max_group_bytes(bytes_->size());
    if (bytes <= limit) return message;
    throw ipc_error(name_, fmt::format("a record batch claims {} bytes, more than the memory limit "
                                       "of {} for a file of {}; write smaller record batches",
                                       bytes, limit, bytes_->size()));
  }

  // Columns `fields`, in ascending order, of a record batch.
  BatchPointer batch_at(size_t number, const std::vector<int>& fields) const {
    const auto& place = messages_.batches[number];
    auto options = read_options();
    options.included_fields = fields;
    auto batch = accepted(
        arrow::ipc::ReadRecordBatch(*message_at(place), schema_, &dictionaries_, options), name_);
    if (batch->num_rows() != place.rows)
      throw ipc_error(name_, fmt::format("record batch {} has {} rows instead of {}", number + 1,
                                         batch->num_rows(), place.rows));
    accept(batch->Validate(), name_, kIpcFormat);
    return batch;
  }

  int field_of(const std::string& column) const {
    const auto found = schema_->GetAllFieldIndices(column);
    if (found.size() > 1)
      throw config_error(fmt::format("{}: two columns are called '{}'", name_, printable(column)));
    if (found.empty())
      throw config_error(fmt::format("{}: no column '{}'", name_, printable(column)));
    return found.front();
  }

  void verify_memory(size_t rows, size_t columns) const {
    verify_group_size(rows, columns, bytes_->size(), name_, "record batch");
  }

  // One column, or one per element of a list.
  std::vector<TableColumn> column_of(int field, std::span<const RowRun> runs,
                                     const DataTable& table) const {
    const auto& name = schema_->field(field)->name();
    const auto& type = schema_->field(field)->type();
    std::vector<TableColumn> columns;
    if (has_strings(*type) || is_dictionary_of_strings(*type)) {
      columns.push_back(text_rows(runs, name, name_));
    } else if (has_lists(*type) && has_numbers(type->field(0)->type(), name_)) {
      return list_rows(runs, name, table, max_group_values(bytes_->size()),
                       list_width(field, runs));
    } else if (has_numbers(type, name_)) {
      columns.push_back(number_rows(runs, name));
    } else {
      throw config_error(
          fmt::format("{}: column '{}' is {}; supported: numbers, booleans, dates, times, strings "
                      "and lists of numbers; list the columns to use (images: dataset "
                      "arrow_images)",
                      name_, printable(name), printable(type->ToString())));
    }
    columns.front().is_complete = !columns.front().has_missing();
    return columns;
  }

  static bool is_dictionary_of_strings(const arrow::DataType& type) {
    return type.id() == arrow::Type::DICTIONARY &&
           has_strings(*static_cast<const arrow::DictionaryType&>(type).value_type());
  }

  // If all lists of these rows are empty, the length of the first other one in the file; 0: none.
  size_t list_width(int field, std::span<const RowRun> runs) const {
    for (const auto& run : runs)
      if (const auto width = list_width(run)) return width;
    for (size_t batch = 0; batch < messages_.batches.size(); ++batch) {
      const auto column = batch_at(batch, {field});
      if (const auto width = list_width({column->column(0).get(), 0, column->num_rows()}))
        return width;
    }
    return 0;
  }
  size_t list_width(const RowRun& run) const {
    for (auto row = run.begin; row < run.begin + run.count; ++row)
      if (const auto count = list_at(*run.array, row, name_).count)
        return static_cast<size_t>(count);
    return 0;
  }

  std::string name_;  // of the file, for messages
  std::shared_ptr<arrow::Buffer> bytes_;
  IpcMessages messages_;
  std::vector<int64_t> first_rows_;  // of the record batches
  std::shared_ptr<arrow::Schema> schema_;
  arrow::ipc::DictionaryMemo dictionaries_;
};

}  // namespace
}  // namespace lockstep::formats

extern "C" lockstep::formats::ColumnarFile* lockstep_open_arrow(const uint8_t* bytes, size_t size,
                                                                const std::string& name) {
  return new lockstep::formats::ArrowIpcFile({bytes, size}, name);
}
