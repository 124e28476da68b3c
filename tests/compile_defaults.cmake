# attnlab compile for the default configs into a fresh folder, twice: the second time it compiles
# nothing. -DATTNLAB=the program -DFOLDER=an empty folder of the test's own
file(REMOVE_RECURSE ${FOLDER})
function(compile)
  execute_process(
    COMMAND ${ATTNLAB} compile --arch sm_80,sm_90a --cache-dir ${FOLDER} --no-progress
    RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
  message("${out}${err}")
  if(code EQUAL 3)
    message("skipped: nothing can be compiled here")
    return()
  endif()
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "attnlab compile ended with code ${code}")
  endif()
  if(NOT out MATCHES "${ARGN}")
    message(FATAL_ERROR "attnlab compile does not say '${ARGN}'")
  endif()
endfunction()
compile("units?, [1-9][0-9]* kernels?: [1-9]")
compile(": 0 compiled ")
file(REMOVE_RECURSE ${FOLDER})
