#include "kime/backend/cuda/weight_upload.h"

#include <utility>

namespace kime::cuda {

namespace {

constexpr std::size_t kAlignment = 256;

}  // namespace

Result<std::unique_ptr<WeightUpload>> WeightUpload::make(Stream& stream, std::shared_ptr<DeviceContext> context, DeviceAddress address) {
  auto upload = std::unique_ptr<WeightUpload>(new WeightUpload(stream, address));
  for (auto& half : upload->halves_) {
    auto memory = Slab::pinned(context, kPiece, kAlignment);
    if (!memory) {
      return std::move(memory).error();
    }
    auto event = Event::make(context);
    if (!event) {
      return std::move(event).error();
    }
    half.emplace(Half{*std::move(memory), *std::move(event), false});
  }
  return upload;
}

WeightUpload::~WeightUpload() {
  static_cast<void>(finish());
}

Status WeightUpload::wait(Half& half) const {
  if (!std::exchange(half.sent, false)) {
    return {};
  }
  auto& context = stream_.context();
  return context.check("cuEventSynchronize", context.api().event_synchronize(half.copied->handle()));
}

Result<std::byte*> WeightUpload::room() {
  Half& half = *halves_[next_];
  if (auto waited = wait(half); !waited) {
    return std::move(waited).error();
  }
  return half.memory.host();
}

Status WeightUpload::send(std::size_t offset, std::size_t bytes) {
  Half& half = *halves_[next_];
  next_ = 1 - next_;
  auto& context = stream_.context();
  const Code code = context.api().memcpy_htod_async(address_ + offset, half.memory.host(), bytes, stream_.handle());
  if (auto copied = context.check("cuMemcpyHtoDAsync", code); !copied) {
    return copied;
  }
  half.sent = true;
  return half.copied->record(stream_.handle());
}

Status WeightUpload::finish() {
  Status all;
  for (auto& half : halves_) {
    if (auto waited = half ? wait(*half) : Status(); !waited) {
      all = std::move(waited);
    }
  }
  return all;
}

}  // namespace kime::cuda
