# The CUDA kernels: kernels/cuda/*.cu become fat binaries, one a file, that are embedded into the library. nvcc is run by commands of our
# own, not as a language of the project: nothing else is compiled by it, and compilers and sanitizers stay as the presets say.
set(KIME_CUDA_ARCHITECTURES 80 86 89 90 100 120)
set(KIME_CUDA_PTX 80 100)
set(KIME_CUDA_FLAGS -std=c++20 -fmad=false)
set(KIME_CUDA_OLDEST 12.4)
math(EXPR KIME_CUDA_MOST_BYTES "16 * 1024 * 1024")

set(KIME_CUDA AUTO CACHE STRING "CUDA kernels: AUTO (where nvcc is found), ON or OFF")
set_property(CACHE KIME_CUDA PROPERTY STRINGS AUTO ON OFF)
find_program(KIME_NVCC nvcc PATHS ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin DOC "The CUDA compiler")
mark_as_advanced(KIME_NVCC)

# Leaves in `why` what keeps nvcc from compiling the kernels, or nothing; in `version` its version.
function(kime_try_nvcc why version)
  if(NOT KIME_NVCC OR NOT EXISTS ${KIME_NVCC})
    set(${why} "there is no nvcc in PATH, CUDA_HOME or /usr/local/cuda" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${KIME_NVCC} --version OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE failed)
  if(failed OR NOT said MATCHES "release ([0-9]+\\.[0-9]+)")
    set(${why} "${KIME_NVCC} does not say its version" PARENT_SCOPE)
    return()
  endif()
  set(${version} ${CMAKE_MATCH_1} PARENT_SCOPE)
  if(CMAKE_MATCH_1 VERSION_LESS KIME_CUDA_OLDEST)
    set(${why} "${KIME_NVCC} is version ${CMAKE_MATCH_1}, and ${KIME_CUDA_OLDEST} is the oldest that will do" PARENT_SCOPE)
    return()
  endif()
  # The host's compiler may be too new for it, or the toolkit be there in part.
  set(source ${PROJECT_BINARY_DIR}/cuda/try.cu)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\nextern \"C\" __global__ void kime_try() {}\n")
  execute_process(COMMAND ${KIME_NVCC} ${KIME_CUDA_FLAGS} -arch=sm_80 -cubin -o ${PROJECT_BINARY_DIR}/cuda/try.cubin ${source}
                  OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE failed)
  if(failed)
    string(REGEX MATCH "[^\n]*(error|fatal)[^\n]*" said "${said}")
    set(${why} "${KIME_NVCC} compiles no kernel (${said}); NVCC_CCBIN names another host compiler" PARENT_SCOPE)
  endif()
endfunction()

# What nvcc is told of architectures: PTX of those of KIME_CUDA_PTX, and of it machine code for those of the list that it knows. Kernels ask
# for nothing that only some have, and compiling to PTX takes twice the time of making one's machine code of it. The newest PTX is
# embedded too, and `ptx` names it: of it, devices newer than all of these make their own code.
function(kime_cuda_architectures known ptx options)
  execute_process(COMMAND ${KIME_NVCC} --list-gpu-code OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  set(found "")
  foreach(architecture ${KIME_CUDA_ARCHITECTURES})
    if(said MATCHES "sm_${architecture}[^0-9]")
      if(architecture IN_LIST KIME_CUDA_PTX OR NOT found)
        set(from ${architecture})
      endif()
      list(APPEND found ${architecture})
      list(APPEND told -gencode arch=compute_${from},code=sm_${architecture})
    endif()
  endforeach()
  list(APPEND told -gencode arch=compute_${from},code=compute_${from})
  set(${known} ${found} PARENT_SCOPE)
  set(${ptx} ${from} PARENT_SCOPE)
  set(${options} ${told} PARENT_SCOPE)
endfunction()

# Has `source` of the library `target` embed the list KIME_CUDA_IMAGES; KIME_CUDA_IMAGE_FILES are the fat binaries.
function(kime_embed_kernels target source options)
  file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu)
  set(folder ${PROJECT_BINARY_DIR}/cuda)
  foreach(kernel ${kernels})
    get_filename_component(name ${kernel} NAME_WE)
    set(image ${folder}/${name}.fatbin)
    add_custom_command(
      OUTPUT ${image} ${image}.uses
      COMMAND ${CMAKE_COMMAND} -DUSES=${image}.uses -P ${PROJECT_SOURCE_DIR}/cmake/cuda_compile.cmake --
              ${KIME_NVCC} ${KIME_CUDA_FLAGS} ${options} -Xptxas -v -Xfatbin -compress-all -I${PROJECT_SOURCE_DIR}
              -MMD -MF ${image}.d -MT ${image} -fatbin -o ${image} ${kernel}
      DEPENDS ${kernel} ${PROJECT_SOURCE_DIR}/cmake/cuda_compile.cmake
      DEPFILE ${image}.d
      COMMENT "CUDA kernels of ${name}.cu"
      VERBATIM)
    list(APPEND images ${image})
    string(APPEND list "KIME_IMAGE(${name}, \"${image}\")\n")
  endforeach()
  set(small ${folder}/images_are_small)
  add_custom_command(
    OUTPUT ${small}
    COMMAND ${CMAKE_COMMAND} -DMOST=${KIME_CUDA_MOST_BYTES} "-DIMAGES=${images}" -DSTAMP=${small} -P ${PROJECT_SOURCE_DIR}/cmake/cuda_size.cmake
    DEPENDS ${images} ${PROJECT_SOURCE_DIR}/cmake/cuda_size.cmake
    COMMENT "Size of the CUDA kernels"
    VERBATIM)
  add_custom_target(kime_cuda_kernels DEPENDS ${images} ${small})  # of its own, so that it waits for no library that `target` needs
  add_dependencies(${target} kime_cuda_kernels)
  file(CONFIGURE OUTPUT ${folder}/images.inc CONTENT "${list}")
  set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS "KIME_CUDA_IMAGES=\"${folder}/images.inc\""
                                                   OBJECT_DEPENDS "${images};${small};${folder}/images.inc")
  set(KIME_CUDA_IMAGE_FILES ${images} PARENT_SCOPE)
endfunction()

set(KIME_CUDA_IMAGE_FILES "")
set(without "")
if(KIME_CUDA STREQUAL "OFF")
  set(without "KIME_CUDA is OFF")
elseif(KIME_CUDA MATCHES "^(AUTO|ON)$")
  kime_try_nvcc(without KIME_CUDA_VERSION)
else()
  message(FATAL_ERROR "KIME_CUDA is '${KIME_CUDA}': it is AUTO, ON or OFF")
endif()
if(without AND KIME_CUDA STREQUAL "ON")
  message(FATAL_ERROR "KIME_CUDA is ON, but ${without}")
elseif(without)
  message(STATUS "No CUDA kernels in this build: ${without}")
else()
  kime_cuda_architectures(KIME_CUDA_KNOWN KIME_CUDA_EMBEDDED_PTX options)
  kime_embed_kernels(kime_cuda ${PROJECT_SOURCE_DIR}/lib/kime/backend/cuda/image.cpp "${options}")
  list(JOIN KIME_CUDA_KNOWN ", " spelled)
  message(STATUS "CUDA kernels by nvcc ${KIME_CUDA_VERSION} (${KIME_NVCC}) for compute capability ${spelled} (times ten)")
endif()
