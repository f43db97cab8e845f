#include "kime/model/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include "kime/model/json.h"

namespace kime {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;

struct ElementType {
  std::string_view name;
  unsigned bits;
};

// Every element type of version 0.8 of the library. kime reads few of them, but which a file holds is for the caller to judge.
constexpr std::array<ElementType, 22> kElementTypes = {{
    {"BOOL", 8},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16}, {"F16", 16}, {"BF16", 16},   {"I32", 32},
    {"U32", 32},    {"F32", 32},        {"C64", 64},        {"F64", 64},    {"I64", 64}, {"U64", 64},
}};

// Bytes of a tensor, or nothing when their number, or that of the elements or bits, is over 64 bits, or no whole number of bytes.
std::optional<std::uint64_t> byte_count(std::span<const std::size_t> shape, unsigned bits) {
  std::uint64_t count = 1;
  for (const std::size_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count)) {
      return {};
    }
  }
  if (__builtin_mul_overflow(count, bits, &count) || count % 8 != 0) {
    return {};
  }
  return count / 8;
}

// A list of non-negative integers, or nothing.
std::optional<std::vector<std::size_t>> integers(const json::Value& list) {
  if (!list.is_array()) {
    return {};
  }
  std::vector<std::size_t> numbers;
  for (const auto& number : list) {
    if (!number.is_number_unsigned()) {
      return {};
    }
    numbers.push_back(number.get<std::size_t>());
  }
  return numbers;
}

Error tensor_error(const File& file, std::string_view name, std::string_view what) {
  return {ErrorKind::input, fmt::format("{}: tensor {}: {}", file.path(), json::brief_name(name), what)};
}

Result<SafetensorsEntry> parse_entry(const File& file, const std::string& name, const json::Value& info) {
  const auto wrong = [&](std::string_view field, std::string_view expected) {
    const auto value = info.find(field);
    return tensor_error(file, name,
                        value == info.end() ? fmt::format("{} is missing", field)
                                            : fmt::format("{} is {}; expected {}", field, json::brief(*value), expected));
  };
  if (!info.is_object()) {
    return tensor_error(file, name, fmt::format("{}; expected an object", json::brief(info)));
  }
  const auto dtype = info.find("dtype");
  const auto* const type = dtype == info.end() ? kElementTypes.end()
                                               : std::find_if(kElementTypes.begin(), kElementTypes.end(),
                                                              [&](const ElementType& known) { return *dtype == known.name; });
  if (type == kElementTypes.end()) {
    return wrong("dtype", "a dtype of the safetensors format");
  }
  auto shape = integers(info.value("shape", json::Value()));
  if (!shape) {
    return wrong("shape", "a list of non-negative integers");
  }
  const auto offsets = integers(info.value("data_offsets", json::Value()));
  if (!offsets || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1]) {
    return wrong("data_offsets", "two non-negative integers, begin and end");
  }
  const auto bytes = byte_count(*shape, type->bits);
  if (!bytes) {
    return wrong("shape", fmt::format("a whole number of bytes of {}, under 2^64", type->name));
  }
  if (const auto given = (*offsets)[1] - (*offsets)[0]; given != *bytes) {
    return tensor_error(file, name,
                        fmt::format("data_offsets {} are {} bytes; shape {} of {} has {}", json::brief(*info.find("data_offsets")), given,
                                    json::brief(*info.find("shape")), type->name, *bytes));
  }
  return SafetensorsEntry{
      .name = name, .dtype = std::string(type->name), .shape = *std::move(shape), .begin = (*offsets)[0], .bytes = *bytes};
}

std::optional<Error> check_metadata(const File& file, const json::Value& metadata) {
  if (metadata.is_null()) {  // which the library takes for none
    return {};
  }
  const bool strings =
      metadata.is_object() && std::all_of(metadata.begin(), metadata.end(), [](const json::Value& value) { return value.is_string(); });
  if (!strings) {
    return Error(ErrorKind::input,
                 fmt::format("{}: __metadata__ is {}; expected an object of strings", file.path(), json::brief(metadata)));
  }
  return {};
}

// The tensors, in the order of their bytes, must cover [0, size) exactly.
std::optional<Error> check_cover(const File& file, std::span<const SafetensorsEntry> entries, std::uint64_t size) {
  std::uint64_t end = 0;
  for (const auto& entry : entries) {
    if (entry.begin != end) {
      return tensor_error(file, entry.name,
                          fmt::format("begins at data offset {}; expected {}, where the tensor before it ends ({})", entry.begin, end,
                                      entry.begin < end ? "they overlap" : "there is a hole"));
    }
    end += entry.bytes;  // no overflow: begin + bytes is the header's second offset
    if (end > size) {
      return tensor_error(file, entry.name, fmt::format("ends at data offset {}; the file has data up to {}", end, size));
    }
  }
  if (end != size) {
    return Error(ErrorKind::input, fmt::format("{}: {} bytes follow the last tensor", file.path(), size - end));
  }
  return {};
}

Result<std::string> read_header(const File& file) {
  std::array<std::byte, kLengthBytes> raw = {};
  if (file.size() < raw.size()) {
    return Error(ErrorKind::input,
                 fmt::format("{}: {} bytes; a safetensors file begins with 8 for its header's length", file.path(), file.size()));
  }
  if (auto status = file.read(0, raw); !status) {
    return status.error();
  }
  std::uint64_t length = 0;
  for (std::size_t i = raw.size(); i-- > 0;) {
    length = length << 8U | std::to_integer<std::uint64_t>(raw[i]);
  }
  if (length > kMaxHeader) {
    return Error(ErrorKind::input, fmt::format("{}: header length {} is over {}", file.path(), length, kMaxHeader));
  }
  if (length > file.size() - raw.size()) {
    return Error(ErrorKind::input,
                 fmt::format("{}: header length {} is past the end of the file, {} bytes", file.path(), length, file.size()));
  }
  std::string header(static_cast<std::size_t>(length), '\0');
  if (auto status = file.read(raw.size(), std::as_writable_bytes(std::span(header))); !status) {
    return status.error();
  }
  if (!header.starts_with('{')) {
    return Error(ErrorKind::input, fmt::format("{}: the header does not begin with {{", file.path()));
  }
  return header;
}

}  // namespace

Result<Safetensors> Safetensors::open(File file) {
  const auto text = read_header(file);
  if (!text) {
    return text.error();
  }
  const auto header = json::parse(*text, file.path(), json::Dialect::strict);
  if (!header) {
    return header.error();
  }
  Safetensors result;
  for (const auto& [name, info] : header->items()) {
    if (name == "__metadata__") {
      if (const auto error = check_metadata(file, info)) {
        return *error;
      }
      continue;
    }
    auto entry = parse_entry(file, name, info);
    if (!entry) {
      return std::move(entry).error();
    }
    result.entries_.push_back(*std::move(entry));
  }
  std::sort(result.entries_.begin(), result.entries_.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.bytes, a.name) < std::tie(b.begin, b.bytes, b.name);
  });
  const auto data = kLengthBytes + text->size();
  if (const auto error = check_cover(file, result.entries_, file.size() - data)) {
    return *error;
  }
  for (auto& entry : result.entries_) {
    entry.begin += data;
  }
  result.file_ = std::move(file);
  return result;
}

Status Safetensors::read(const SafetensorsEntry& entry, std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > entry.bytes || out.size() > entry.bytes - offset) {
    return tensor_error(file_, entry.name, fmt::format("has {} bytes; {} at offset {} were asked for", entry.bytes, out.size(), offset));
  }
  if (auto status = file_.read(entry.begin + offset, out); !status) {
    return Error(ErrorKind::input, fmt::format("{} (tensor {})", status.error().message(), json::brief_name(entry.name)));
  }
  return {};
}

}  // namespace kime
