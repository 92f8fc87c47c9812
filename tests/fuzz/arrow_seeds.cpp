// Small Arrow files and streams with all column types and compressions, by Arrow's writers.
#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/api.h>
#include <arrow/util/compression.h>

#include "tests/fuzz/arrow_table.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

// With a column of a dictionary and one of lists of a fixed length.
std::shared_ptr<arrow::Table> with_more_types() {
  arrow::StringDictionaryBuilder words;
  arrow::StringViewBuilder views;
  arrow::FixedSizeListBuilder lists(arrow::default_memory_pool(),
                                    std::make_shared<arrow::DoubleBuilder>(), 2);
  auto& values = static_cast<arrow::DoubleBuilder&>(*lists.value_builder());
  for (size_t i = 0; i < kRows; ++i) {
    arrow_done(i % 4 == 0 ? words.AppendNull() : words.Append(std::string(i % 3 + 1, 'y')));
    arrow_done(i % 4 == 0 ? views.AppendNull() : views.Append(std::string(i % 3 * 9 + 1, 'z')));
    arrow_done(lists.Append());
    arrow_done(values.AppendValues({0.25, static_cast<double>(i)}));
  }
  auto table = arrow_table();
  for (const auto& [name, array] :
       std::vector<std::pair<std::string, std::shared_ptr<arrow::Array>>>{
           {"dictionary", words.Finish().ValueOrDie()},
           {"view", views.Finish().ValueOrDie()},
           {"fixed list", lists.Finish().ValueOrDie()}})
    table = table
                ->AddColumn(0, arrow::field(name, array->type()),
                            std::make_shared<arrow::ChunkedArray>(array))
                .ValueOrDie();
  return table;
}

std::string written(const arrow::Table& table, bool as_file, arrow::Compression::type codec) {
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.use_threads = false;
  if (codec != arrow::Compression::UNCOMPRESSED)
    options.codec = arrow::util::Codec::Create(codec).ValueOrDie();
  auto out = arrow::io::BufferOutputStream::Create().ValueOrDie();
  auto writer = (as_file ? arrow::ipc::MakeFileWriter(out, table.schema(), options)
                         : arrow::ipc::MakeStreamWriter(out, table.schema(), options))
                    .ValueOrDie();
  arrow_done(writer->WriteTable(table, kRows / 2));
  arrow_done(writer->Close());
  return out->Finish().ValueOrDie()->ToString();
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  const auto plain = arrow_table(), more = with_more_types();
  return {written(*plain, false, arrow::Compression::UNCOMPRESSED),
          written(*more, true, arrow::Compression::UNCOMPRESSED),
          written(*more, false, arrow::Compression::UNCOMPRESSED),
          written(*plain, true, arrow::Compression::LZ4_FRAME),
          written(*more, false, arrow::Compression::ZSTD)};
}

}  // namespace lockstep
