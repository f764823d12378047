// main [--model DIR] INPUT.bin ... OUTPUT.bin ...: runs the model once on tensors in files.
// A file has the elements of a tensor in row-major order. Sizes that change follow the name: tokens.bin:2,77.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "fd_model.hpp"

namespace {

using shape = std::vector<int64_t>;

[[noreturn]] void refuse(const std::string& sentence) { throw std::runtime_error(sentence); }

size_t bytes_of(fd_dtype dtype, const shape& sizes) {
    size_t bytes = fd::element_bytes(dtype);
    for (const int64_t size : sizes) bytes *= static_cast<size_t>(size);
    return bytes;
}

// "tokens.bin:2,77" as the name of the file, and the shape.
std::pair<std::string, shape> split(const std::string& argument, const fd::port& port) {
    const bool changes = std::find(port.shape.begin(), port.shape.end(), -1) != port.shape.end();
    if (!changes) return {argument, port.shape};
    const size_t colon = argument.rfind(':');
    if (colon == std::string::npos)
        refuse("input '" + port.name + "' has sizes that change: write them behind the file, as in " + argument + ":2,77");
    shape sizes;
    std::stringstream rest(argument.substr(colon + 1));
    for (std::string size; std::getline(rest, size, ',');) {
        char* end = nullptr;
        sizes.push_back(std::strtoll(size.c_str(), &end, 10));
        if (size.empty() || *end || sizes.back() < 0) refuse("'" + size + "' is no size of input '" + port.name + "'");
    }
    return {argument.substr(0, colon), sizes};
}

std::vector<char> read(const std::string& path, size_t bytes) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) refuse("'" + path + "' cannot be read: " + std::strerror(errno));
    if (static_cast<size_t>(file.tellg()) != bytes)
        refuse("'" + path + "' has " + std::to_string(file.tellg()) + " bytes, and the input has " +
               std::to_string(bytes));
    std::vector<char> content(bytes);
    file.seekg(0);
    file.read(content.data(), static_cast<std::streamsize>(bytes));
    return content;
}

void write(const std::string& path, const std::vector<char>& content) {
    std::ofstream file(path, std::ios::binary);
    if (!file.write(content.data(), static_cast<std::streamsize>(content.size())))
        refuse("'" + path + "' cannot be written: " + std::strerror(errno));
}

void run(const std::string& directory, const std::vector<std::string>& files) {
    const fd::loaded_model model(directory);
    const auto inputs = model.inputs(), outputs = model.outputs();
    if (files.size() != inputs.size() + outputs.size())
        refuse("the model has " + std::to_string(inputs.size()) + " inputs and " + std::to_string(outputs.size()) +
               " outputs: give one file for each, and not " + std::to_string(files.size()));
    std::vector<std::vector<char>> memory;
    std::vector<fd::tensor> from, to;
    for (size_t i = 0; i < inputs.size(); ++i) {
        const auto [path, sizes] = split(files[i], inputs[i]);
        memory.push_back(read(path, bytes_of(inputs[i].dtype, sizes)));
        from.push_back({inputs[i].dtype, sizes, memory.back().data()});
    }
    for (size_t k = 0; k < outputs.size(); ++k) {
        const shape sizes = model.output_shape(from, k);
        memory.emplace_back(bytes_of(outputs[k].dtype, sizes));
        to.push_back({outputs[k].dtype, sizes, memory.back().data()});
    }
    model.run(from, to);
    for (size_t k = 0; k < outputs.size(); ++k) write(files[inputs.size() + k], memory[inputs.size() + k]);
}

}  // namespace

int main(int count, char** arguments) {
    std::vector<std::string> files(arguments + 1, arguments + count);
    std::string directory = ".";
    if (files.size() >= 2 && files[0] == "--model") {
        directory = files[1];
        files.erase(files.begin(), files.begin() + 2);
    }
    try {
        run(directory, files);
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "main: " << error.what() << "\n";
        return 2;
    }
}
