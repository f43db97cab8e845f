// kime's own declarations of the CUDA driver API against cuda.h, where there is one.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#ifdef KIME_CUDA_HEADERS
#include <cuda.h>
#endif

#include "kime/backend/cuda/api.h"
#include "tests/cuda/driver/alike.h"

namespace kime::test {

TEST_CASE("each function of the table has a name, once") {
  const cuda::DriverApi api;
  std::vector<std::string> names;
  const char* end = reinterpret_cast<const char*>(&api);
  cuda::for_each_function(api, [&](const char* name, const auto& member) {
    CHECK(reinterpret_cast<const char*>(&member) == end);  // in the order of the members, none left out
    end = reinterpret_cast<const char*>(&member + 1);
    CHECK(std::ranges::find(names, name) == names.end());
    names.emplace_back(name);
  });
  CHECK(end == reinterpret_cast<const char*>(&api + 1));
}

#ifdef KIME_CUDA_HEADERS

namespace {

static_assert(alike<cuda::StreamHandle*, CUstream*>() && !alike<const int*, int*>() && !alike<int, unsigned>() && !alike<int, long>());
static_assert(!alike<int(int), int(int, int)>() && !alike<cuda::StreamHandle, int>() && !alike<cuda::Uuid, CUdevprop>());

#define KIME_ALIKE(member, function) static_assert(alike<decltype(cuda::DriverApi::member), decltype(&(function))>(), #function)
KIME_ALIKE(init, cuInit);
KIME_ALIKE(driver_get_version, cuDriverGetVersion);
KIME_ALIKE(get_error_name, cuGetErrorName);
KIME_ALIKE(get_error_string, cuGetErrorString);
KIME_ALIKE(device_get_count, cuDeviceGetCount);
KIME_ALIKE(device_get, cuDeviceGet);
KIME_ALIKE(device_get_name, cuDeviceGetName);
KIME_ALIKE(device_get_uuid, cuDeviceGetUuid);
KIME_ALIKE(device_get_pci_bus_id, cuDeviceGetPCIBusId);
KIME_ALIKE(device_get_attribute, cuDeviceGetAttribute);
KIME_ALIKE(device_total_mem, cuDeviceTotalMem);
KIME_ALIKE(device_can_access_peer, cuDeviceCanAccessPeer);
KIME_ALIKE(primary_ctx_retain, cuDevicePrimaryCtxRetain);
KIME_ALIKE(primary_ctx_release, cuDevicePrimaryCtxRelease);
KIME_ALIKE(ctx_set_current, cuCtxSetCurrent);
KIME_ALIKE(ctx_enable_peer_access, cuCtxEnablePeerAccess);
KIME_ALIKE(mem_get_info, cuMemGetInfo);
KIME_ALIKE(mem_alloc, cuMemAlloc);
KIME_ALIKE(mem_free, cuMemFree);
KIME_ALIKE(mem_host_alloc, cuMemHostAlloc);
KIME_ALIKE(mem_host_get_device_pointer, cuMemHostGetDevicePointer);
KIME_ALIKE(mem_free_host, cuMemFreeHost);
KIME_ALIKE(memset_d8_async, cuMemsetD8Async);
KIME_ALIKE(memcpy_async, cuMemcpyAsync);
KIME_ALIKE(memcpy_htod_async, cuMemcpyHtoDAsync);
KIME_ALIKE(memcpy_dtoh_async, cuMemcpyDtoHAsync);
KIME_ALIKE(memcpy_peer_async, cuMemcpyPeerAsync);
KIME_ALIKE(stream_create, cuStreamCreate);
KIME_ALIKE(stream_destroy, cuStreamDestroy);
KIME_ALIKE(stream_synchronize, cuStreamSynchronize);
KIME_ALIKE(stream_wait_event, cuStreamWaitEvent);
KIME_ALIKE(event_create, cuEventCreate);
KIME_ALIKE(event_destroy, cuEventDestroy);
KIME_ALIKE(event_record, cuEventRecord);
KIME_ALIKE(event_query, cuEventQuery);
KIME_ALIKE(event_synchronize, cuEventSynchronize);
KIME_ALIKE(module_load_data, cuModuleLoadData);
KIME_ALIKE(module_unload, cuModuleUnload);
KIME_ALIKE(module_get_function, cuModuleGetFunction);
KIME_ALIKE(func_get_attribute, cuFuncGetAttribute);
KIME_ALIKE(func_set_attribute, cuFuncSetAttribute);
KIME_ALIKE(launch_kernel, cuLaunchKernel);
KIME_ALIKE(stream_begin_capture, cuStreamBeginCapture);
KIME_ALIKE(stream_end_capture, cuStreamEndCapture);
KIME_ALIKE(stream_is_capturing, cuStreamIsCapturing);
KIME_ALIKE(graph_instantiate, cuGraphInstantiateWithFlags);
KIME_ALIKE(graph_upload, cuGraphUpload);
KIME_ALIKE(graph_launch, cuGraphLaunch);
KIME_ALIKE(graph_exec_destroy, cuGraphExecDestroy);
KIME_ALIKE(graph_destroy, cuGraphDestroy);
#undef KIME_ALIKE
static_assert(alike<cuda::GetProcAddress, decltype(&cuGetProcAddress)>());

#define KIME_VALUE(own, theirs) static_assert(static_cast<unsigned long long>(own) == static_cast<unsigned long long>(theirs), #theirs)
KIME_VALUE(cuda::Code::success, CUDA_SUCCESS);
KIME_VALUE(cuda::Code::invalid_value, CUDA_ERROR_INVALID_VALUE);
KIME_VALUE(cuda::Code::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
KIME_VALUE(cuda::Code::not_initialized, CUDA_ERROR_NOT_INITIALIZED);
KIME_VALUE(cuda::Code::deinitialized, CUDA_ERROR_DEINITIALIZED);
KIME_VALUE(cuda::Code::no_device, CUDA_ERROR_NO_DEVICE);
KIME_VALUE(cuda::Code::invalid_device, CUDA_ERROR_INVALID_DEVICE);
KIME_VALUE(cuda::Code::invalid_image, CUDA_ERROR_INVALID_IMAGE);
KIME_VALUE(cuda::Code::invalid_context, CUDA_ERROR_INVALID_CONTEXT);
KIME_VALUE(cuda::Code::ecc_uncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
KIME_VALUE(cuda::Code::peer_access_unsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
KIME_VALUE(cuda::Code::nvlink_uncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
KIME_VALUE(cuda::Code::invalid_handle, CUDA_ERROR_INVALID_HANDLE);
KIME_VALUE(cuda::Code::illegal_state, CUDA_ERROR_ILLEGAL_STATE);
KIME_VALUE(cuda::Code::not_found, CUDA_ERROR_NOT_FOUND);
KIME_VALUE(cuda::Code::not_ready, CUDA_ERROR_NOT_READY);
KIME_VALUE(cuda::Code::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
KIME_VALUE(cuda::Code::launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
KIME_VALUE(cuda::Code::launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT);
KIME_VALUE(cuda::Code::peer_access_already_enabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
KIME_VALUE(cuda::Code::peer_access_not_enabled, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
KIME_VALUE(cuda::Code::context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
KIME_VALUE(cuda::Code::assert, CUDA_ERROR_ASSERT);
KIME_VALUE(cuda::Code::hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR);
KIME_VALUE(cuda::Code::illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
KIME_VALUE(cuda::Code::misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS);
KIME_VALUE(cuda::Code::invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE);
KIME_VALUE(cuda::Code::invalid_pc, CUDA_ERROR_INVALID_PC);
KIME_VALUE(cuda::Code::launch_failed, CUDA_ERROR_LAUNCH_FAILED);
KIME_VALUE(cuda::Code::not_supported, CUDA_ERROR_NOT_SUPPORTED);
KIME_VALUE(cuda::Code::stream_capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
KIME_VALUE(cuda::Code::stream_capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
KIME_VALUE(cuda::Code::stream_capture_unmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
KIME_VALUE(cuda::Code::stream_capture_isolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
KIME_VALUE(cuda::Code::captured_event, CUDA_ERROR_CAPTURED_EVENT);
KIME_VALUE(cuda::Code::stream_capture_wrong_thread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
KIME_VALUE(cuda::Code::unknown, CUDA_ERROR_UNKNOWN);
KIME_VALUE(cuda::Attribute::max_threads_per_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
KIME_VALUE(cuda::Attribute::clock_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
KIME_VALUE(cuda::Attribute::multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
KIME_VALUE(cuda::Attribute::compute_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
KIME_VALUE(cuda::Attribute::compute_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
KIME_VALUE(cuda::Attribute::shared_bytes_per_block_optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
KIME_VALUE(cuda::FunctionAttribute::max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
KIME_VALUE(cuda::FunctionAttribute::static_shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
KIME_VALUE(cuda::FunctionAttribute::local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
KIME_VALUE(cuda::FunctionAttribute::registers, CU_FUNC_ATTRIBUTE_NUM_REGS);
KIME_VALUE(cuda::FunctionAttribute::max_dynamic_shared_bytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
KIME_VALUE(cuda::CaptureMode::global, CU_STREAM_CAPTURE_MODE_GLOBAL);
KIME_VALUE(cuda::CaptureMode::thread_local_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
KIME_VALUE(cuda::CaptureMode::relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
KIME_VALUE(cuda::CaptureStatus::none, CU_STREAM_CAPTURE_STATUS_NONE);
KIME_VALUE(cuda::CaptureStatus::active, CU_STREAM_CAPTURE_STATUS_ACTIVE);
KIME_VALUE(cuda::CaptureStatus::invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
KIME_VALUE(cuda::SymbolStatus::found, CU_GET_PROC_ADDRESS_SUCCESS);
KIME_VALUE(cuda::SymbolStatus::not_found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
KIME_VALUE(cuda::SymbolStatus::version_too_old, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
KIME_VALUE(cuda::kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
KIME_VALUE(cuda::kEventBlockingSync, CU_EVENT_BLOCKING_SYNC);
KIME_VALUE(cuda::kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
KIME_VALUE(cuda::kHostPortable, CU_MEMHOSTALLOC_PORTABLE);
KIME_VALUE(cuda::kHostDeviceMap, CU_MEMHOSTALLOC_DEVICEMAP);
KIME_VALUE(cuda::kProcDefault, CU_GET_PROC_ADDRESS_DEFAULT);
#undef KIME_VALUE

}  // namespace

#endif

}  // namespace kime::test
