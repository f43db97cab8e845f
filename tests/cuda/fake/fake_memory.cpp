// The fake driver: memory and copies.
#include <cstring>

#include "tests/cuda/fake/fake_state.h"

namespace kime::test {

namespace {

void free_block(FakeCall& call, std::map<DeviceAddress, std::shared_ptr<FakeMemory>>::iterator found) {
  const auto& block = found->second;
  if (!block->fences_stand()) {
    call.state.violation("written past the ends of an allocation");
  }
  auto& used = block->gpu < 0 ? call.state.host_used : call.state.used[static_cast<std::size_t>(block->gpu)];
  used -= block->bytes;
  call.state.memory.erase(found);
}

void add_allocation(cuda::DriverApi& api) {
  api.mem_get_info = [](std::size_t* free, std::size_t* total) {
    return fake_call("cuMemGetInfo", FakeNeeds::context, [&](FakeCall& call) {
      const auto gpu = static_cast<std::size_t>(call.context->gpu);
      *total = call.state.config.gpus[gpu].memory_bytes;
      *free = *total - call.state.used[gpu];
      return Code::success;
    });
  };
  api.mem_alloc = [](DeviceAddress* address, std::size_t bytes) {
    return fake_call("cuMemAlloc", FakeNeeds::context, [&](FakeCall& call) {
      if (bytes == 0 || call.refused_in_capture()) {
        return bytes == 0 ? Code::invalid_value : Code::stream_capture_unsupported;
      }
      const auto gpu = static_cast<std::size_t>(call.context->gpu);
      if (bytes > call.state.config.gpus[gpu].memory_bytes - call.state.used[gpu]) {
        return Code::out_of_memory;
      }
      call.state.used[gpu] += bytes;
      auto& next = call.state.next_address[gpu];
      *address = next;
      next += (bytes + 511) / 256 * 256;  // never given out again
      call.state.memory[*address] = call.state.new_memory(call.context->gpu, bytes);
      return Code::success;
    });
  };
  api.mem_free = [](DeviceAddress address) {
    return fake_call("cuMemFree", FakeNeeds::context, [&](FakeCall& call) {
      if (call.refused_in_capture()) {
        return Code::stream_capture_unsupported;
      }
      const auto found = call.state.memory.find(address);
      if (found == call.state.memory.end() || found->second->gpu != call.context->gpu) {
        call.state.violation("freed what is not allocated, or of another context");
        return Code::invalid_value;
      }
      const auto context = call.context;
      if (const Code code = call.wait(*context, [&] { return call.state.idle(*context); }); code != Code::success) {
        return code;
      }
      free_block(call, call.state.memory.find(address));
      return Code::success;
    });
  };
  api.mem_host_alloc = [](void** memory, std::size_t bytes, unsigned /*flags*/) {
    return fake_call("cuMemHostAlloc", FakeNeeds::context, [&](FakeCall& call) {
      if (bytes == 0 || call.refused_in_capture()) {
        return bytes == 0 ? Code::invalid_value : Code::stream_capture_unsupported;
      }
      if (bytes > call.state.config.host_bytes - call.state.host_used) {
        return Code::out_of_memory;
      }
      call.state.host_used += bytes;
      auto block = call.state.new_memory(-1, bytes);
      *memory = block->data();
      call.state.memory[number(*memory)] = std::move(block);
      return Code::success;
    });
  };
  api.mem_host_get_device_pointer = [](DeviceAddress* address, void* memory, unsigned flags) {
    return fake_call("cuMemHostGetDevicePointer", FakeNeeds::context, [&](FakeCall& call) {
      if (flags != 0 || !call.state.memory.contains(number(memory))) {
        return Code::invalid_value;
      }
      *address = number(memory);
      return Code::success;
    });
  };
  api.mem_free_host = [](void* memory) {
    return fake_call("cuMemFreeHost", FakeNeeds::context, [&](FakeCall& call) {
      if (call.refused_in_capture()) {
        return Code::stream_capture_unsupported;
      }
      const auto found = call.state.memory.find(number(memory));
      if (found == call.state.memory.end() || found->second->gpu >= 0) {
        call.state.violation("freed pinned memory that is not allocated");
        return Code::invalid_value;
      }
      const auto context = call.context;
      if (const Code code = call.wait(*context, [&] { return call.state.idle(*context); }); code != Code::success) {
        return code;
      }
      free_block(call, call.state.memory.find(number(memory)));
      return Code::success;
    });
  };
}

// Work that moves bytes between places of which each is an address of the driver's or a host pointer.
struct End {
  DeviceAddress address = 0;
  const void* host = nullptr;
};
FakeWork moving(FakeCall& call, End to, End from, std::size_t bytes) {
  return [&state = call.state, context = call.context, to, from, bytes] {
    std::shared_ptr<FakeMemory> keep_to;
    std::shared_ptr<FakeMemory> keep_from;
    auto* target = to.host != nullptr ? const_cast<void*>(to.host) : state.reach(*context, to.address, bytes, keep_to);
    const auto* source = from.host != nullptr ? from.host : state.reach(*context, from.address, bytes, keep_from);
    if (target == nullptr || source == nullptr) {
      return Code::illegal_address;
    }
    std::memmove(target, source, bytes);
    return Code::success;
  };
}

bool is_device(const void* pointer) {
  return number(pointer) >= kDeviceBase;
}

void add_copies(cuda::DriverApi& api) {
  api.memset_d8_async = [](DeviceAddress to, unsigned char value, std::size_t bytes, cuda::StreamHandle stream) {
    return fake_call("cuMemsetD8Async", FakeNeeds::context, [&](FakeCall& call) {
      return call.enqueue(stream, [&state = call.state, context = call.context, to, value, bytes] {
        std::shared_ptr<FakeMemory> keep;
        auto* target = state.reach(*context, to, bytes, keep);
        if (target == nullptr) {
          return Code::illegal_address;
        }
        std::memset(target, value, bytes);
        return Code::success;
      });
    });
  };
  api.memcpy_async = [](DeviceAddress to, DeviceAddress from, std::size_t bytes, cuda::StreamHandle stream) {
    return fake_call("cuMemcpyAsync", FakeNeeds::context, [&](FakeCall& call) {
      return call.enqueue(stream, moving(call, {to, nullptr}, {from, nullptr}, bytes));
    });
  };
  api.memcpy_htod_async = [](DeviceAddress to, const void* from, std::size_t bytes, cuda::StreamHandle stream) {
    return fake_call("cuMemcpyHtoDAsync", FakeNeeds::context, [&](FakeCall& call) {
      if (from == nullptr || is_device(from)) {
        call.state.violation("a device address where a host pointer must be");
        return Code::invalid_value;
      }
      return call.enqueue(stream, moving(call, {to, nullptr}, {0, from}, bytes));
    });
  };
  api.memcpy_dtoh_async = [](void* to, DeviceAddress from, std::size_t bytes, cuda::StreamHandle stream) {
    return fake_call("cuMemcpyDtoHAsync", FakeNeeds::context, [&](FakeCall& call) {
      if (to == nullptr || is_device(to)) {
        call.state.violation("a device address where a host pointer must be");
        return Code::invalid_value;
      }
      return call.enqueue(stream, moving(call, {0, to}, {from, nullptr}, bytes));
    });
  };
  api.memcpy_peer_async = [](DeviceAddress to, cuda::ContextHandle to_context, DeviceAddress from, cuda::ContextHandle from_context,
                             std::size_t bytes, cuda::StreamHandle stream) {
    return fake_call("cuMemcpyPeerAsync", FakeNeeds::context, [&](FakeCall& call) {
      const auto& contexts = call.state.contexts;
      if (!contexts.contains(number(to_context)) || !contexts.contains(number(from_context))) {
        return Code::invalid_context;
      }
      return call.enqueue(stream, moving(call, {to, nullptr}, {from, nullptr}, bytes));
    });
  };
}

}  // namespace

void add_fake_memory(cuda::DriverApi& api) {
  add_allocation(api);
  add_copies(api);
}

}  // namespace kime::test
