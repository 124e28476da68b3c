# Writes ${OUTPUT}, a source file that holds the text of ${FILES} (paths from ${SOURCE_DIR}), for
# kernels/cuda/kernel_sources.h.
set(text "#include \"kernels/cuda/kernel_sources.h\"\n
namespace attnlab::cuda {\n
const EmbeddedSource kEmbeddedSources[] = {\n")
list(LENGTH FILES count)
foreach(file ${FILES})
  file(READ ${SOURCE_DIR}/${file} content)
  string(FIND "${content}" ")attnlab\"" end)
  if(NOT end EQUAL -1)
    message(FATAL_ERROR "${file} contains )attnlab\", which ends the text it is put into")
  endif()
  string(APPEND text "{\"${file}\", R\"attnlab(${content})attnlab\"},\n")
endforeach()
string(APPEND text "};
const int kNumEmbeddedSources = ${count};\n
}  // namespace attnlab::cuda\n")
file(WRITE ${OUTPUT} "${text}")
