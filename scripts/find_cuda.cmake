# Looks for CUDA's headers; the libraries are opened at run time. Sets ATTNLAB_WITH_CUDA and makes
# the target attnlab_cuda_headers, which is empty without CUDA. Says what it found, or the remedy.
set(ATTNLAB_CUDA AUTO CACHE STRING "Build the CUDA side: AUTO (where its headers are), ON, OFF")
set_property(CACHE ATTNLAB_CUDA PROPERTY STRINGS AUTO ON OFF)
set(ATTNLAB_CUDA_ROOT "" CACHE PATH "The folder in which alone CUDA's headers are looked for")

add_library(attnlab_cuda_headers INTERFACE)

# Finds folders that hold cuda.h, nvrtc.h, ...: a toolkit has one, older wheels have several.
function(attnlab_find_cuda_headers result)
  set(roots $ENV{CUDA_HOME} $ENV{CUDA_PATH} $ENV{CONDA_PREFIX} /usr/local/cuda)
  set(site_packages ${PROJECT_SOURCE_DIR}/.cuda)
  if(ATTNLAB_CUDA_ROOT)
    set(roots ${ATTNLAB_CUDA_ROOT})
    set(site_packages ${ATTNLAB_CUDA_ROOT})
  else()
    string(REPLACE ":" ";" python_path "$ENV{PYTHONPATH}")
    list(APPEND site_packages ${python_path})
    find_program(ATTNLAB_PYTHON python3)
    mark_as_advanced(ATTNLAB_PYTHON)
    if(ATTNLAB_PYTHON)
      execute_process(COMMAND ${ATTNLAB_PYTHON} -c "import site, sys; print(*site.getsitepackages(),\
 site.getusersitepackages(), sep=';', end='')"
        OUTPUT_VARIABLE python_folders ERROR_QUIET)
      list(APPEND site_packages ${python_folders})
    endif()
  endif()
  set(folders)
  foreach(root ${roots})
    list(APPEND folders ${root}/include ${root}/targets/${CMAKE_SYSTEM_PROCESSOR}-linux/include
         ${root}/extras/CUPTI/include)
  endforeach()
  foreach(folder ${site_packages})
    file(GLOB found LIST_DIRECTORIES true ${folder}/nvidia/cu1*/include ${folder}/nvidia/*/include)
    list(APPEND folders ${found})
  endforeach()
  if(NOT ATTNLAB_CUDA_ROOT)
    list(APPEND folders /usr/include)  # Debian's nvidia-cuda-dev
  endif()
  set(include)
  foreach(header cuda.h nvrtc.h cublas_v2.h crt/host_defines.h nvtx3/nvToolsExt.h
          cupti_range_profiler.h)
    foreach(folder ${folders})
      if(EXISTS ${folder}/${header})
        list(APPEND include ${folder})
        break()
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES include)
  set(${result} "${include}" PARENT_SCOPE)
endfunction()

set(ATTNLAB_WITH_CUDA OFF)
set(why "ATTNLAB_CUDA is OFF")
if(ATTNLAB_CUDA)
  attnlab_find_cuda_headers(cuda_include)
  # The test includes what the sources do, and needs a release that has what they use.
  set(test_source ${PROJECT_BINARY_DIR}/generated/cuda_headers.cpp)
  file(CONFIGURE OUTPUT ${test_source} CONTENT "#include <cublas_v2.h>
#include <cuda.h>
#include <nvrtc.h>
#include <cupti_range_profiler.h>
#include <nvtx3/nvToolsExt.h>
static_assert(CUDA_VERSION >= 12060);
int main() { return sizeof(CUtensorMap) == 128 ? 0 : 1; }
")
  try_compile(found ${PROJECT_BINARY_DIR}/generated/cuda_headers ${test_source}
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${cuda_include}"
    OUTPUT_VARIABLE words)
  set(why "no cuda.h, nvrtc.h, cublas_v2.h, nvtx3 and CUPTI of CUDA 12.6 or newer were found")
  if(found AND NOT cuda_include)  # the compiler knows a folder that we do not
    set(cuda_where "where the compiler finds them by itself")
    if(ATTNLAB_CUDA_ROOT)
      set(found FALSE)
    endif()
  else()
    set(cuda_where "in ${cuda_include}")
  endif()
  if(found)
    set(ATTNLAB_WITH_CUDA ON)
  elseif(cuda_include)
    string(REGEX MATCH "[^\n]*error[^\n]*" words "${words}")
    string(APPEND why ": those in ${cuda_include} do not compile (${words})")
  endif()
endif()

if(ATTNLAB_WITH_CUDA)
  message(STATUS "CUDA: headers ${cuda_where}")
  target_include_directories(attnlab_cuda_headers SYSTEM INTERFACE ${cuda_include})
  target_link_libraries(attnlab_cuda_headers INTERFACE ${CMAKE_DL_LIBS})
else()
  set(remedy "scripts/setup.sh --cuda brings what is missing into .cuda")
  if(ATTNLAB_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ATTNLAB_CUDA is ON, but ${why}. ${remedy}")
  endif()
  message(STATUS "CUDA: left out, ${why}. ${remedy}")
endif()
