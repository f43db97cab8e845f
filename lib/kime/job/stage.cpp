#include "kime/job/stage.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

namespace kime {

namespace {

Result<std::string> read_text(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  std::string text;
  if (file) {
    std::array<char, 4096> block{};
    while (const std::size_t got = std::fread(block.data(), 1, block.size(), file.get())) {
      text.append(block.data(), got);
    }
  }
  if (!file || std::ferror(file.get()) != 0) {
    return system_error(path, errno);
  }
  return text;
}

}  // namespace

Result<StageBuckets> choose_stage(const std::string& file, const std::string& stage) {
  BucketTable own;
  if (!file.empty()) {
    auto text = read_text(file);
    if (!text) {
      return std::move(text).error();
    }
    auto parsed = BucketTable::parse(*text, file);
    if (!parsed) {
      return std::move(parsed).error();
    }
    own = *std::move(parsed);
  }
  const BucketTable& table = file.empty() ? BucketTable::compiled_in() : own;
  std::string name = stage;
  if (name.empty()) {
    name = table.stage("compat").empty() && !table.stages().empty() ? table.stages().front() : "compat";
  }
  const auto buckets = table.stage(name);
  if (buckets.empty()) {
    return Error(ErrorKind::input, fmt::format("no stage '{}' in {}; there is: {}", name,
                                               file.empty() ? "the compiled-in bucket table" : file, fmt::join(table.stages(), ", ")));
  }
  return StageBuckets{name, {buckets.begin(), buckets.end()}};
}

}  // namespace kime
