# Runs attnlab compile for the default configs into a fresh folder, twice: the second time it
# compiles nothing. Then runs attnlab gate --static on the same units, against the committed
# baseline, and against two that are wrong. -DATTNLAB=the program -DFOLDER=an empty folder of the
# test's own -DBASELINES=the folder of baselines
file(REMOVE_RECURSE ${FOLDER})
function(compile)
  execute_process(
    COMMAND ${ATTNLAB} compile --arch sm_80,sm_90a --cache-dir ${FOLDER} --no-progress
    RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
  message("${out}${err}")
  if(code EQUAL 3)
    message("skipped: nothing can be compiled here")
    set(skipped TRUE PARENT_SCOPE)
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
if(skipped)
  return()
endif()
compile(": 0 compiled ")

# gate(CODE TEXT [ARGUMENTS...]): expects that the gate ends with CODE and says TEXT.
function(gate wanted text)
  execute_process(
    COMMAND ${ATTNLAB} gate --static --cache-dir ${FOLDER} --no-progress ${ARGN}
    RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
  message("${out}${err}")
  if(NOT code EQUAL wanted OR NOT "${out}${err}" MATCHES "${text}")
    message(FATAL_ERROR "attnlab gate ${ARGN} ended with code ${code}, not ${wanted}: ${text}")
  endif()
endfunction()
execute_process(COMMAND ${ATTNLAB} compile --cache-dir ${FOLDER} --arch sm_90a --kernel minimal
  --no-progress OUTPUT_VARIABLE compiled)
string(REGEX MATCH "NVRTC [0-9.]*[0-9]" compiler "${compiled}")
string(REPLACE "NVRTC " "nvrtc-" name "${compiler}")
set(baseline ${BASELINES}/${name}.json)
if(EXISTS ${baseline})
  file(READ ${baseline} facts)
  gate(0 "nothing differs")
  string(REPLACE "\"spill_bytes\": 0" "\"spill_bytes\": 8" spilling "${facts}")
  file(WRITE ${FOLDER}/spilling.json "${spilling}")
  gate(4 "spill_bytes +8 +0" --baseline ${FOLDER}/spilling.json)
  string(REPLACE "${compiler}" "NVRTC 1.0" foreign "${facts}")
  file(WRITE ${FOLDER}/foreign.json "${foreign}")
  gate(3 "baseline is of NVRTC 1.0" --baseline ${FOLDER}/foreign.json)
else()
  gate(3 "there is no baseline of NVRTC")
endif()
gate(2 "is no file that can be read" --baseline ${FOLDER}/none.json)
file(REMOVE_RECURSE ${FOLDER})
