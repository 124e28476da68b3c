# Writes ${OUTPUT} with the facts of this build, only if they changed. It runs at every build.
execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE result)
if(NOT "$ENV{ATTNLAB_COMMIT}" STREQUAL "")  # it is set for a copy without its history
  set(commit "$ENV{ATTNLAB_COMMIT}")
elseif(NOT result EQUAL 0)
  set(commit "unknown")
else()
  execute_process(COMMAND git -C ${SOURCE_DIR} status --porcelain --untracked-files=no
    OUTPUT_VARIABLE changes ERROR_QUIET)
  if(changes)
    string(APPEND commit "-dirty")
  endif()
endif()
string(STRIP "${FLAGS}" FLAGS)
if(SANITIZE)
  string(APPEND FLAGS " -fsanitize=${SANITIZE}")
endif()
set(text "#pragma once
#define ATTNLAB_VERSION \"${VERSION}\"
#define ATTNLAB_COMMIT \"${commit}\"
#define ATTNLAB_COMPILER \"${COMPILER}\"
#define ATTNLAB_FLAGS \"${FLAGS}\"
")
set(old "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
