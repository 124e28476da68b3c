#include "kernels/cuda/messages.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "kernels/cuda/bytes.h"

namespace attnlab::cuda {
namespace {

void write_texts(ByteWriter& writer, const std::vector<std::string>& texts) {
  writer.number<std::uint64_t>(texts.size());
  for (const std::string& text : texts) writer.text(text);
}

std::vector<std::string> read_texts(ByteReader& reader) {
  std::vector<std::string> texts;
  for (auto left = reader.number<std::uint64_t>(); left > 0; --left) {
    texts.push_back(reader.text());
  }
  return texts;
}

void write_entry(ByteWriter& writer, const KernelEntry& entry) {
  writer.text(entry.name);
  writer.number(entry.threads);
  writer.number(entry.dynamic_shared_bytes);
}

KernelEntry read_entry(ByteReader& reader) {
  KernelEntry entry;
  entry.name = reader.text();
  entry.threads = reader.number<int>();
  entry.dynamic_shared_bytes = reader.number<std::uint64_t>();
  return entry;
}

// Transfers all of `size` bytes, or returns false.
template <class Transfer>
bool transfer_all(char* data, std::size_t size, Transfer transfer) {
  while (size > 0) {
    const ssize_t done = transfer(data, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data += done;
    size -= static_cast<std::size_t>(done);
  }
  return true;
}

}  // namespace

std::string to_bytes(const CompilerSettings& settings) {
  ByteWriter writer;
  writer.text(settings.cache_folder);
  writer.text(settings.library);
  writer.text(settings.source_folder);
  writer.number(settings.debug);
  return writer.bytes();
}

CompilerSettings settings_of(const std::string& bytes) {
  ByteReader reader(bytes);
  CompilerSettings settings;
  settings.cache_folder = reader.text();
  settings.library = reader.text();
  settings.source_folder = reader.text();
  settings.debug = reader.number<bool>();
  return settings;
}

std::string to_bytes(const CompileJob& job) {
  ByteWriter writer;
  writer.text(job.arch);
  writer.text(job.unit.name);
  writer.text(job.unit.source);
  writer.number<std::uint64_t>(job.unit.entries.size());
  for (const KernelEntry& entry : job.unit.entries) write_entry(writer, entry);
  write_texts(writer, job.unit.options);
  writer.number(job.unit.must_be_clean);
  return writer.bytes();
}

CompileJob job_of(const std::string& bytes) {
  ByteReader reader(bytes);
  CompileJob job;
  job.arch = reader.text();
  job.unit.name = reader.text();
  job.unit.source = reader.text();
  for (auto left = reader.number<std::uint64_t>(); left > 0; --left) {
    job.unit.entries.push_back(read_entry(reader));
  }
  job.unit.options = read_texts(reader);
  job.unit.must_be_clean = reader.number<bool>();
  return job;
}

std::string to_bytes(const Compilation& compilation) {
  ByteWriter writer;
  writer.text(compilation.unit);
  writer.text(compilation.arch);
  writer.text(compilation.compiler);
  writer.text(compilation.text_sha256);
  writer.number(compilation.seconds);
  writer.number(compilation.from_cache);
  writer.number<std::uint64_t>(compilation.entries.size());
  for (const CompiledEntry& compiled : compilation.entries) {
    write_entry(writer, compiled.entry);
    writer.number(compiled.registers);
    writer.number(compiled.spill_store_bytes);
    writer.number(compiled.spill_load_bytes);
    writer.number(compiled.stack_bytes);
    writer.number(compiled.static_shared_bytes);
    writer.number(compiled.blocks_per_multiprocessor);
    writer.number(compiled.occupancy);
  }
  write_texts(writer, compilation.advisories);
  writer.text(compilation.error);
  return writer.bytes();
}

Compilation compilation_of(const std::string& bytes) {
  ByteReader reader(bytes);
  Compilation compilation;
  compilation.unit = reader.text();
  compilation.arch = reader.text();
  compilation.compiler = reader.text();
  compilation.text_sha256 = reader.text();
  compilation.seconds = reader.number<double>();
  compilation.from_cache = reader.number<bool>();
  for (auto left = reader.number<std::uint64_t>(); left > 0; --left) {
    CompiledEntry compiled;
    compiled.entry = read_entry(reader);
    compiled.registers = reader.number<int>();
    compiled.spill_store_bytes = reader.number<std::int64_t>();
    compiled.spill_load_bytes = reader.number<std::int64_t>();
    compiled.stack_bytes = reader.number<std::int64_t>();
    compiled.static_shared_bytes = reader.number<std::int64_t>();
    compiled.blocks_per_multiprocessor = reader.number<int>();
    compiled.occupancy = reader.number<double>();
    compilation.entries.push_back(std::move(compiled));
  }
  compilation.advisories = read_texts(reader);
  compilation.error = reader.text();
  return compilation;
}

bool send_message(int descriptor, const std::string& bytes) {
  ByteWriter message;
  message.text(bytes);
  std::string data = message.bytes();
  return transfer_all(data.data(), data.size(), [&](const char* from, std::size_t size) {
    return send(descriptor, from, size, MSG_NOSIGNAL);
  });
}

std::optional<std::string> receive_message(int descriptor) {
  const auto receive = [&](char* to, std::size_t size) { return read(descriptor, to, size); };
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  std::uint64_t size = 0;
  if (!transfer_all(reinterpret_cast<char*>(&size), sizeof(size), receive)) return std::nullopt;
  if (size > kMostBytes) return std::nullopt;
  std::string bytes(size, '\0');
  if (!transfer_all(bytes.data(), bytes.size(), receive)) return std::nullopt;
  return bytes;
}

}  // namespace attnlab::cuda
