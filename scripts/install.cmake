# Installs (cmake --install) the program, what it finds in share/attnlab (harness/base/shipped.h),
# the documents, and what shells and man show of it, which the program itself writes.
include(GNUInstallDirs)
install(TARGETS attnlab RUNTIME)
install(DIRECTORY sweeps DESTINATION ${CMAKE_INSTALL_DATADIR}/attnlab)
install(DIRECTORY scripts/peers DESTINATION ${CMAKE_INSTALL_DATADIR}/attnlab/scripts
  USE_SOURCE_PERMISSIONS
  FILES_MATCHING PATTERN "*.py" PATTERN "*.txt" PATTERN "*.sh" PATTERN __pycache__ EXCLUDE)
install(PROGRAMS scripts/check_saved.py DESTINATION ${CMAKE_INSTALL_DATADIR}/attnlab/scripts)
install(FILES README.md HACKING.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
install(FILES sweeps/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/sweeps)
install(FILES results/README.md results/cpu-notes.md results/record.schema.json
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/results)
install(DIRECTORY results/nvidia-h100 results/nvidia-h200
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/results
  FILES_MATCHING PATTERN "*.md")
foreach(generation v1 v2 v3)
  install(FILES kernels/${generation}/TUNING.md
    DESTINATION ${CMAKE_INSTALL_DOCDIR}/kernels/${generation})
endforeach()

# attnlab_describe(FILE FOLDER ARGUMENTS...): installs what the program prints, as a file.
function(attnlab_describe file folder)
  set(made ${PROJECT_BINARY_DIR}/generated/installed/${file})
  list(JOIN ARGN " " arguments)
  install(CODE "
    file(MAKE_DIRECTORY \"${PROJECT_BINARY_DIR}/generated/installed\")
    execute_process(COMMAND \"$<TARGET_FILE:attnlab>\" ${arguments} OUTPUT_FILE \"${made}\"
      COMMAND_ERROR_IS_FATAL ANY)")
  install(FILES ${made} DESTINATION ${folder})
endfunction()
attnlab_describe(attnlab ${CMAKE_INSTALL_DATADIR}/bash-completion/completions completion bash)
attnlab_describe(_attnlab ${CMAKE_INSTALL_DATADIR}/zsh/site-functions completion zsh)
attnlab_describe(attnlab.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d completion fish)
attnlab_describe(attnlab.1 ${CMAKE_INSTALL_MANDIR}/man1 man)
