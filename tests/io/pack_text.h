// Compresses text for tests.
#pragma once

#include <zlib.h>
#include <zstd.h>

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

/// One gzip member.
inline std::string gzip(std::string_view text) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, static_cast<uLong>(text.size())) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// One zstd frame.
inline std::string zstd(std::string_view text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3);
  REQUIRE(ZSTD_isError(size) == 0);
  packed.resize(size);
  return packed;
}
