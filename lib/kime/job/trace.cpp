#include "kime/job/trace.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "kime/io/json_text.h"

namespace kime {

namespace {

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

double micros(std::uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1000;
}

}  // namespace

std::uint64_t Trace::now() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

Trace::Trace(std::string path, std::FILE* file) : path_(std::move(path)), file_(file), start_(now()) {
  std::fputs(R"({"displayTimeUnit":"ms","traceEvents":[)", file_);
  write(R"({"ph":"M","pid":1,"tid":0,"name":"process_name","args":{"name":"kime"}})");
}

Result<std::unique_ptr<Trace>> Trace::create(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) {
    return system_error(path, errno);
  }
  return std::unique_ptr<Trace>(new Trace(path, file));
}

Trace::~Trace() {
  static_cast<void>(close());
}

void Trace::write(const std::string& event) {
  const std::lock_guard lock(mutex_);
  if (file_ != nullptr) {
    std::fputs(first_ ? "\n" : ",\n", file_);
    first_ = false;
    std::fwrite(event.data(), 1, event.size(), file_);  // a failure shows at close()
  }
}

std::size_t Trace::row(std::string_view name) {
  std::size_t row = 0;
  {
    const std::lock_guard lock(mutex_);
    row = ++rows_;
  }
  write(fmt::format(R"({{"ph":"M","pid":1,"tid":{},"name":"thread_name","args":{{"name":{}}}}})", row, quoted(name)));
  write(fmt::format(R"({{"ph":"M","pid":1,"tid":{0},"name":"thread_sort_index","args":{{"sort_index":{0}}}}})", row));
  return row;
}

void Trace::span(std::size_t row, std::string_view name, std::uint64_t begin, std::uint64_t end) {
  write(fmt::format(R"({{"ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},"name":{}}})", row, micros(begin - start_), micros(end - begin),
                    quoted(name)));
}

void Trace::span(std::size_t row, std::string_view name, std::uint64_t begin, std::uint64_t end, std::uint64_t records,
                 std::uint64_t tokens) {
  write(fmt::format(R"({{"ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},"name":{},"args":{{"records":{},"tokens":{}}}}})", row,
                    micros(begin - start_), micros(end - begin), quoted(name), records, tokens));
}

Status Trace::close() {
  const std::lock_guard lock(mutex_);
  if (file_ == nullptr) {
    return {};
  }
  std::fputs("\n]}\n", file_);
  const bool bad = std::ferror(file_) != 0;
  const bool closed = std::fclose(file_) == 0;
  file_ = nullptr;
  if (bad || !closed) {
    return Error(ErrorKind::input, fmt::format("{}: {}", path_, bad ? "could not be written" : std::strerror(errno)));
  }
  return {};
}

}  // namespace kime
