// Names files of the cache folder that belong to a device and its driver.
#pragma once

#include <filesystem>
#include <string>

#include "kernels/api/device.h"

namespace attnlab {

// Returns cache_folder()/FOLDER/NAME-DRIVER and the ending; a CPU has no driver.
std::filesystem::path device_file(const std::string& folder, const Device& device,
                                  const std::string& ending);

// Throws UsageError, naming the file, where its folder cannot be made.
void make_folder_of(const std::filesystem::path& file);

}  // namespace attnlab
