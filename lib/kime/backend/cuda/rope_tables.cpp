#include "kime/backend/cuda/rope_tables.h"

#include <algorithm>
#include <bit>

#include "kime/backend/cuda/stream.h"

namespace kime::cuda {

namespace {

constexpr std::size_t kFewest = 4096;  // positions: room for most sequences, so that small buckets share one table

}  // namespace

Result<std::shared_ptr<const DeviceRope>> DeviceRopes::get(float theta, std::size_t head_width, std::size_t positions) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(tables_, [&](const auto& table) { return table->angles.is_for(theta, head_width); });
  if (found != tables_.end() && (*found)->positions >= positions) {
    return *found;
  }
  auto made = make(theta, head_width, std::bit_ceil(std::max(positions, kFewest)));
  if (!made) {
    return made;
  }
  if (found == tables_.end()) {
    tables_.push_back(*made);
  } else {
    *found = *made;
  }
  return made;
}

Result<std::shared_ptr<const DeviceRope>> DeviceRopes::make(float theta, std::size_t head_width, std::size_t positions) {
  RopeAngles angles(theta, head_width);
  std::vector<float> host(2 * positions * angles.half());
  angles.fill(0, positions, host.data(), host.data() + positions * angles.half());
  const std::size_t bytes = host.size() * sizeof(float);
  auto stream = Stream::make(0, context_);
  if (!stream) {
    return std::move(stream).error();
  }
  auto memory = Slab::on_device(context_, bytes, kSlabAlignment);
  if (!memory) {
    return std::move(memory).error();
  }
  const auto& api = context_->api();
  const Code copied = api.memcpy_htod_async(memory->address(), host.data(), bytes, (*stream)->handle());
  if (auto done = context_->check("cuMemcpyHtoDAsync", copied); !done) {
    return std::move(done).error();
  }
  if (auto done = context_->check("cuStreamSynchronize", api.stream_synchronize((*stream)->handle())); !done) {
    return std::move(done).error();
  }
  return std::make_shared<const DeviceRope>(DeviceRope{std::move(angles), positions, *std::move(memory)});
}

}  // namespace kime::cuda
